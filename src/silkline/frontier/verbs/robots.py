"""robots.txt: one worker fetches it for all, and the frontier stores it, compressed."""

from __future__ import annotations

import zlib
from typing import Any, Literal, NamedTuple

from silkline.core.lease import Lease
from silkline.core.robots import MAX_BYTES, cut
from silkline.core.url import ParsedUrl, parse
from silkline.errors import ConfigError
from silkline.frontier.arguments import milliseconds
from silkline.frontier.store.keys import ShardKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.transport.command import Command, Flow, as_text, ask, load
from silkline.frontier.verbs.hosts import host_words, set_host

RobotsState = Literal["known", "yours", "fetching", "unknown"]
_PLAIN, _DEFLATED, _UNREACHABLE = b"t", b"z", b"u"
LONGEST_REASON = 300


class RobotsFile(NamedTuple):
    """The robots.txt of an origin, as the frontier has it."""

    state: RobotsState
    """known; yours: fetch it and store it; fetching: another worker does; unknown: nothing is stored, for a caller who only reads."""
    text: bytes | None
    """The file, empty if the site has none. If it is known, None means that it could not be fetched; otherwise this is an older
    copy, if there is one.
    """
    lasts: float
    """Seconds for which this result is valid."""
    reason: str = ""
    """Why it could not be fetched."""


def robots(layout: CrawlLayout, url: str, lock: float, lease: Lease | None) -> Flow[RobotsFile]:
    """Read the robots.txt of the origin of *url*. A caller that must fetch it has *lock* seconds, or until its *lease* ends."""
    address = parse(url)
    keys, lock_ms = layout.shard_of(address.host), milliseconds("lock", lock)
    return (yield from ask(robots_command(keys, origin_of(address), lock_ms, token_of(lease, address))))


def token_of(lease: Lease | None, address: ParsedUrl) -> str | None:
    if lease is None or lease.request.download_slot:
        return None  # the lease of a slot is not in the queue of the host
    if lease.host != address.host:
        if parse(f"{address.scheme}://{lease.host}/").host == address.host:
            return None  # an earlier version stored it under "example.com."
        raise ConfigError(f"the robots.txt of {address.host} is not fetched with the lease of a page of {lease.host}")
    return lease.wire_token


def keep_robots(
    layout: CrawlLayout, url: str, text: bytes | None, fresh: float, crawl_delay: float | None, reason: str = ""
) -> Flow[bool]:
    """Store a robots.txt. Its delay is stored first: it must apply even if there is no room for the text."""
    address = parse(url)
    fresh_ms = milliseconds("fresh", fresh, least=0)
    words = host_words({"crawl_delay": crawl_delay})
    keys = layout.shard_of(address.host)
    yield from ask(set_host(keys, address.host, words))
    return (yield from ask(keep_robots_command(keys, origin_of(address), fresh_ms, text, reason)))


def origin_of(address: ParsedUrl) -> str:
    """Return the origin that a robots.txt applies to: scheme, host and port."""
    return f"{address.scheme}://{address.host}"


def robots_command(keys: ShardKeys, origin: str, lock_ms: int, token: str | None = None) -> Command[RobotsFile]:
    def decode(reply: list[bytes]) -> RobotsFile:
        state: Any = reply[0].decode()
        return RobotsFile(state, unpack(reply[2]), int(reply[1]) / 1000, unpack_reason(reply[2]))

    return Command(load("robots"), (keys.ledger,), (origin, lock_ms, "" if token is None else token), decode)


def keep_robots_command(keys: ShardKeys, origin: str, fresh_ms: int, text: bytes | None, reason: str) -> Command[bool]:
    """Returns whether it was stored; a server that is out of memory does not store it."""
    args = (origin, fresh_ms, pack(text, reason))
    return Command(load("keep_robots"), (keys.ledger,), args, lambda reply: as_text(reply) == "kept", b"no memory")


def pack(text: bytes | None, reason: str = "") -> bytes:
    """The bytes to store; deflated if that is shorter. Without a text, the *reason* for it."""
    if text is None:
        return _UNREACHABLE + reason[:LONGEST_REASON].encode() if reason else b""
    text = cut(text)
    deflated = zlib.compress(text)
    return _DEFLATED + deflated if len(deflated) < len(text) else _PLAIN + text


def unpack(packed: bytes) -> bytes | None:
    if not packed or packed.startswith(_UNREACHABLE):
        return None
    kind, rest = packed[:1], packed[1:]
    return zlib.decompressobj().decompress(rest, MAX_BYTES) if kind == _DEFLATED else rest


def unpack_reason(packed: bytes) -> str:
    return packed[1:].decode(errors="replace") if packed.startswith(_UNREACHABLE) else ""
