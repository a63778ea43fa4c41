"""Collections behind the interfaces of frameworks."""
