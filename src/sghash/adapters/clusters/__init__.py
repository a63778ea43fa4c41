"""Fit, encode, build and search on engines that people already have: the caller brings them."""
