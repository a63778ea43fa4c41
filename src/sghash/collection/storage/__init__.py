"""The files of a collection: what is written, in what order, and what a crash leaves."""
