"""Exact search by Hamming distance: bit slices for many queries, popcounts for few."""
