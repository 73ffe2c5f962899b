"""Fetch, handle, follow: what happens to a request between its claim and its ending."""
