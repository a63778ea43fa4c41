"""The same idea with other decoders, with scales, and for integer programs."""
