"""Indexes over codes that stand in a database, with the verbs of every index."""
