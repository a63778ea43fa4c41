"""Losses beside the description length: neighbours, labels, known pairs."""
