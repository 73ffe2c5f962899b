"""What a server's URL says: which topology, which nodes, which login. No I/O, and nothing said aloud of passwords."""

from __future__ import annotations

import re
from typing import NamedTuple

from silkline.core.errors import ConfigError

_SCHEMES = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel")
_LOGIN = re.compile(r"//.*@")
_SECRET = re.compile(r"(password=)[^&]*", re.IGNORECASE)
_NODE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+)(?::(?P<port>\d{1,5}))?")


class Target(NamedTuple):
    """Where a URL points."""

    kind: str  # plain, cluster or sentinel
    url: str
    service: str = ""
    sentinels: tuple[tuple[str, int], ...] = ()

    @property
    def public(self) -> str:
        """The URL without its password."""
        return without_password(self.url)


def without_password(url: str) -> str:
    """The address as it may be printed. An @ among the options is part of a value, and hides no login."""
    place, mark, options = url.partition("?")
    hidden = _SECRET.sub(r"\1***", options)
    if "@" in place or "@" not in hidden:
        return _LOGIN.sub("//***@", place) + mark + hidden
    return _LOGIN.sub("//***@", place + mark + hidden)  # or the question mark is part of a password


def read_url(url: str) -> Target:
    """``redis:// rediss:// unix:// redis+cluster:// redis+sentinel://HOST,HOST/SERVICE/DB``; valkey means redis.

    Options follow a question mark, as redis-py has them: ``?ssl_ca_certs=ca.pem&socket_timeout=2``.
    """
    if not isinstance(url, str) or "://" not in url:
        got = repr(url) if not isinstance(url, str) or "@" not in url else "something else"
        raise ConfigError(f"a server address looks like redis://localhost:6379/0 or embedded:DIR, got {got}")
    scheme, _, rest = url.partition("://")
    scheme = scheme.replace("valkeys", "rediss").replace("valkey", "redis")
    if scheme not in _SCHEMES:
        raise ConfigError(f"unknown kind of server address {scheme}://; known are {', '.join(_SCHEMES)} and embedded:")
    base, _, topology = scheme.partition("+")
    if topology == "sentinel":
        return _read_sentinel(base, rest)
    if topology and re.search(r"/0*[1-9]", rest.partition("@")[2] or rest):
        raise ConfigError("a cluster has database 0 only; leave the number out of its address")
    return Target("cluster" if topology else "plain", f"{base}://{rest}")


def _read_sentinel(base: str, rest: str) -> Target:
    place, mark, options = rest.partition("?")
    login, at, location = place.rpartition("@")
    nodes, _, path = location.partition("/")
    service, _, database = path.partition("/")
    found = [_NODE.fullmatch(node) for node in nodes.split(",")]
    if not service or not (database or "0").isdigit() or not all(found):
        raise ConfigError("a sentinel address looks like redis+sentinel://HOST:26379,HOST:26379/SERVICE/DB")
    pairs = tuple((node["host"].strip("[]"), int(node["port"] or 26379)) for node in found if node)
    return Target("sentinel", f"{base}://{login}{at}{service}/{database or 0}{mark}{options}", service, pairs)
