"""Segments in lists: their file, how it is made and measured, and searches for a recall."""
