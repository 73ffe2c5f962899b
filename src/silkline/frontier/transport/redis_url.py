"""Parses the address of a server: topology, nodes and options. Errors never contain a password."""

from __future__ import annotations

import re
from typing import NamedTuple

from silkline.errors import ConfigError

_SCHEMES = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel")
_LOGIN = re.compile(r"//.*@")
_SECRET = re.compile(r"(password=)[^&]*", re.IGNORECASE)
_NODE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+)(?::(?P<port>\d{1,5}))?")


class RedisTarget(NamedTuple):
    """Where a URL points."""

    kind: str  # plain, cluster or sentinel
    url: str
    service: str = ""
    sentinels: tuple[tuple[str, int], ...] = ()
    nodes: tuple[tuple[str, int], ...] = ()
    """Further nodes of a cluster that can be asked for the slots."""

    @property
    def public(self) -> str:
        """The URL without its password."""
        return without_password(self.url)


def without_password(url: str) -> str:
    """Return the address without its password. An @ among the options is part of a value."""
    place, mark, options = url.partition("?")
    hidden = _SECRET.sub(r"\1***", options)
    if "@" in place or "@" not in hidden:
        return _LOGIN.sub("//***@", place) + mark + hidden
    return _LOGIN.sub("//***@", place + mark + hidden)  # the question mark is part of a password


def read_url(url: str) -> RedisTarget:
    """Parse ``redis:// rediss:// unix:// redis+cluster://HOST,HOST redis+sentinel://HOST,HOST/SERVICE/DB``; valkey means redis.

    Options of redis-py follow a question mark: ``?ssl_ca_certs=ca.pem&socket_timeout=2``.
    """
    if not isinstance(url, str) or "://" not in url:
        got = repr(url) if not isinstance(url, str) or "@" not in url else "something else"
        raise ConfigError(f"a server address looks like redis://localhost:6379/0 or embedded:DIR, got {got}")
    scheme, _, rest = url.partition("://")
    scheme = scheme.replace("valkeys", "rediss").replace("valkey", "redis")
    if scheme not in _SCHEMES:
        raise ConfigError(f"unknown server address {scheme}://; use one of {', '.join(_SCHEMES)} and embedded:")
    base, _, topology = scheme.partition("+")
    if topology == "sentinel":
        return _read_sentinel(base, rest)
    if topology and re.search(r"/0*[1-9]", rest.partition("@")[2] or rest):
        raise ConfigError("a cluster has database 0 only; leave the number out of its address")
    return _read_cluster(base, rest) if topology else RedisTarget("plain", f"{base}://{rest}")


def _read_cluster(base: str, rest: str) -> RedisTarget:
    place, mark, options = rest.partition("?")
    login, at, location = place.rpartition("@")
    first, comma, others = location.partition(",")
    if not comma:
        return RedisTarget("cluster", f"{base}://{rest}")
    names, slash, path = others.partition("/")
    nodes = _read_nodes(f"{first},{names}", 6379)
    if not nodes:
        raise ConfigError("a cluster address with several nodes looks like redis+cluster://HOST:6379,HOST:6379")
    return RedisTarget("cluster", f"{base}://{login}{at}{first}{slash}{path}{mark}{options}", nodes=nodes)


def _read_nodes(names: str, port: int) -> tuple[tuple[str, int], ...]:
    """Return hosts and ports separated by commas; nothing if one of them is invalid."""
    found = [_NODE.fullmatch(name) for name in names.split(",")]
    if not all(found):
        return ()
    return tuple((node["host"].strip("[]"), int(node["port"] or port)) for node in found if node)


def _read_sentinel(base: str, rest: str) -> RedisTarget:
    place, mark, options = rest.partition("?")
    login, at, location = place.rpartition("@")
    names, _, path = location.partition("/")
    service, _, database = path.partition("/")
    pairs = _read_nodes(names, 26379)
    if not service or not (database or "0").isdigit() or not pairs:
        raise ConfigError("a sentinel address looks like redis+sentinel://HOST:26379,HOST:26379/SERVICE/DB")
    return RedisTarget("sentinel", f"{base}://{login}{at}{service}/{database or 0}{mark}{options}", service, pairs)
