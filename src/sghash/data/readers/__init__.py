"""One file format per file."""
