"""The transport for plain code."""
