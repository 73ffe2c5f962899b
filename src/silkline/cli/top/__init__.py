"""`silkline top`."""
