"""Vectors in memory or mapped: exact neighbours, and scores of a few kept rows."""
