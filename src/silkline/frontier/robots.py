"""Flows for robots.txt, which is fetched once for the whole fleet."""

from __future__ import annotations

from silkline.core.errors import ConfigError
from silkline.core.lease import Lease
from silkline.core.url import Address, parse
from silkline.frontier import commands
from silkline.frontier.effects import Flow, ask
from silkline.frontier.plan import Plan
from silkline.frontier.robots_file import RobotsFile
from silkline.frontier.wishes import milliseconds, policy_words


def robots(plan: Plan, url: str, lock: float, lease: Lease | None) -> Flow[RobotsFile]:
    """Ask for the robots.txt of the origin of *url*; who is to fetch it has *lock* seconds, if not its *lease* ends before."""
    address = parse(url)
    keys, lock_ms = plan.shard_of(address.host), milliseconds("lock", lock)
    return (yield from ask(commands.robots(keys, origin_of(address), lock_ms, token_of(lease, address))))


def token_of(lease: Lease | None, address: Address) -> int | None:
    if lease is None:
        return None
    if lease.host != address.host:
        raise ConfigError(f"the robots.txt of {address.host} is not fetched with the lease of a page of {lease.host}")
    return lease.token


def keep_robots(plan: Plan, url: str, text: bytes | None, fresh: float, crawl_delay: float | None) -> Flow[bool]:
    """Keep it. The delay that it asks for comes first: it must hold even if the text finds no room."""
    address = parse(url)
    fresh_ms = milliseconds("fresh", fresh, least=0)
    words = policy_words({"crawl_delay": crawl_delay})
    keys = plan.shard_of(address.host)
    yield from ask(commands.set_policy(keys, address.host, words))
    return (yield from ask(commands.keep_robots(keys, origin_of(address), fresh_ms, text)))


def origin_of(address: Address) -> str:
    """Whom a robots.txt speaks for: scheme, host and port."""
    return f"{address.scheme}://{address.host}"
