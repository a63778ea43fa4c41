"""Models whose codes are bytes that name rows of tables, or plain numbers."""
