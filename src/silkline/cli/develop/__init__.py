"""Commands for people who write handlers: one page at a time, without a server."""
