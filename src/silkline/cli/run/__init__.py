"""`silkline run` and `silkline worker`."""
