"""Which rows: expressions over metadata, parsed, checked and answered."""
