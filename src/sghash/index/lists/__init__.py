"""Codes in lists around centroids: the index, its layout, its file, and how it is asked."""
