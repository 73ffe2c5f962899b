"""Calls of the scripts of locks."""

from __future__ import annotations


class Locks:
    """The locks of a crawl that exists."""

    def __init__(self, shard):
        self.shard = shard
        self.keys = shard.layout.keys
        self._run("create", b"settings")

    def _run(self, name, *arguments, **options):
        return self.shard.run(name, *arguments, key=self.keys.settings, **options)

    def hold(self, holder, field="lock:a", ttl=1000, places=1):
        token, ms = self._run("hold", field, holder, ttl, places)
        return (int(token) if token else None), int(ms)

    def renew(self, holder, field="lock:a", ttl=1000):
        return self._run("renew_hold", field, holder, ttl)

    def release(self, holder, field="lock:a"):
        return self._run("release_hold", field, holder)

    def permit(self, field="limiter:a", interval=100, burst=1, **options):
        return self._run("take_permit", field, repr(interval), burst, **options)
