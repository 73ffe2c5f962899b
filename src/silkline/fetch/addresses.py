"""Which addresses a crawler may connect to."""

from __future__ import annotations

import functools
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

IPAddress: TypeAlias = IPv4Address | IPv6Address

# From the IANA registries of special-purpose addresses. `is_private` of the ipaddress module is not used: it has changed between
# patch releases of Python.

_OWN: dict[str, str] = {  # permitted by allow_private: the networks of the operator
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade NAT",
    "127.0.0.0/8": "loopback",
    "172.16.0.0/12": "private",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarking",
    "::1/128": "loopback",
    "fc00::/7": "unique local",
}
_NEVER: dict[str, str] = {  # these have no pages, or none that a crawler should read
    "0.0.0.0/8": "unspecified",
    "100.100.100.200/32": "cloud metadata",
    "168.63.129.16/32": "cloud metadata",
    "169.254.0.0/16": "link-local",  # 169.254.169.254 is where clouds keep their credentials
    "192.0.0.0/24": "protocol assignment",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "6to4 relay",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "::/128": "unspecified",
    "2001::/23": "protocol assignment",  # Teredo too
    "2001:db8::/32": "documentation",
    "3fff::/20": "documentation",
    "fd00:ec2::254/128": "cloud metadata",
    "fd20:ce::254/128": "cloud metadata",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
LOOPBACK = IPv4Address("127.0.0.1")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")

Networks: TypeAlias = tuple[tuple[IPv4Network | IPv6Network, str], ...]


def _networks(table: dict[str, str], version: int) -> Networks:
    return tuple((network, word) for text, word in table.items() if (network := ip_network(text)).version == version)


_OWN_BY_VERSION = {version: _networks(_OWN, version) for version in (4, 6)}
_NEVER_BY_VERSION = {version: _networks(_NEVER, version) for version in (4, 6)}


def read_address(text: str) -> IPAddress | None:
    """Return the address in *text* (in brackets or not); None if it is a name."""
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None


@functools.lru_cache(4096)
def why_forbidden(address: IPAddress, *, allow_private: bool = False) -> str | None:
    """Return why *address* is forbidden, in a word; None if it is permitted."""
    if isinstance(address, IPv6Address) and (inner := _embedded(address)) is not None:
        return why_forbidden(inner, allow_private=allow_private)
    for network, word in _NEVER_BY_VERSION[address.version]:
        if address in network:
            return word
    for network, word in _OWN_BY_VERSION[address.version]:
        if address in network:
            return None if allow_private else word
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return "reserved"
    return None


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that a gateway would connect to for *address*."""
    if address in _MAPPED or address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address((int(address) >> 80) & 0xFFFFFFFF)
    return None
