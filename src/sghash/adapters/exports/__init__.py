"""Codes in the shapes others expect: FAISS, Arrow and Parquet."""
