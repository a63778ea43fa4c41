"""One verb per file; each has a `command`."""
