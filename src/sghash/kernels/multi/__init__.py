"""Codes found by parts of their bits: tables by key, exact search and pairs through them."""
