"""Calls of the scripts of an inbox."""

from __future__ import annotations

import struct


def take(shard, inbox, wanted, ticket, kind="list", hold=10_000):
    """Pairs of id and message, those that were taken before first; or the type of another key."""
    reply = shard.run("inbox_take", inbox.root, kind, wanted, hold, ticket, key=inbox.key)
    if isinstance(reply, bytes):
        return reply
    sizes, data, *pairs = reply
    at = 0
    for number, (size,) in enumerate(struct.iter_unpack("<I", sizes), 1):
        pairs += [f"{ticket}:{number}".encode(), data[at : at + size]]
        at += size
    return pairs


def act(shard, inbox, script, ids, *arguments):
    """Acknowledge, reject or extend messages."""
    return shard.run(script, *arguments, b"\n".join(ids), key=inbox.root)
