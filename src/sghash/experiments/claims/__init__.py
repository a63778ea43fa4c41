"""One claim of the paper per file; each has an `EXPERIMENT`."""
