"""The rivals: one paper per file."""
