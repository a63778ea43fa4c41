"""Rows that are encoded elsewhere: tasks for workers, segments beside the collection, a commit."""
