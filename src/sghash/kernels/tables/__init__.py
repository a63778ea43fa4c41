"""Real queries against codes: sums of table entries, one number per bit or 256 per byte."""
