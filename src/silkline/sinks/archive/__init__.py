"""Archives: what was sent and received, in the format of web archives."""
