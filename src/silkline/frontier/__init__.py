"""The engine room: the only ring that speaks Redis."""
