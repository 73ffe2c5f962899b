"""This machine: the file descriptors of the process, and failures of the machine that look like failures of a web server."""

from __future__ import annotations

import errno
import socket
import sys

from silkline.errors import LocalFailure

MOST_WANTED = 65_536
"""More descriptors than any worker needs. Some systems have no hard limit, and a soft limit in the millions makes some
programs slow."""
MOST_CONNECTIONS = 1_024
RESERVED = 64
"""Descriptors for Redis, sinks, look-ups and files."""


def limit() -> int:
    """Return how many descriptors this process may have."""
    if sys.platform == "win32":
        return MOST_WANTED
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_WANTED if soft in (-1, resource.RLIM_INFINITY) else soft


def raise_limit() -> None:
    """Raise the soft limit of this process to the hard one, where the system permits it."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_WANTED if hard in (-1, resource.RLIM_INFINITY) else min(hard, MOST_WANTED)
    for number in (wanted, 10_240):  # macOS accepts no more than the second value, whatever its hard limit
        if soft in (-1, resource.RLIM_INFINITY) or soft >= number:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
        except (ValueError, OSError):
            continue
        return


def pages() -> int:
    """Return how many pages may be in progress: each may need a connection to a web server and one to Redis."""
    return max(1, (limit() - RESERVED) // 2)


def connections() -> int:
    """Return how many connections to web servers may be open, idle ones included."""
    return min(MOST_CONNECTIONS, pages())


_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_MEMORY = frozenset({errno.ENOMEM, errno.ENOBUFS})
_PORTS = frozenset({errno.EADDRNOTAVAIL})
_NETWORK = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH})
_ELSEWHERE = ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses for documentation. To connect a datagram socket sends nothing, but needs a route."""


def local_failure(number: int | None) -> LocalFailure | None:
    """Return the failure of this machine that an errno is; None if it is the fault of the other side."""
    if number in _DESCRIPTORS:
        many = f"{limit():,}" if number == errno.EMFILE else "all"
        return LocalFailure(f"this worker has used up its file descriptors ({many}); raise ulimit -n", "descriptors")
    if number in _MEMORY:
        return LocalFailure("this machine has no memory left for a connection", "memory")
    if number in _PORTS:
        return LocalFailure("this machine has no address or port left to connect from", "ports")
    if number in _NETWORK and not has_network():
        return no_network()
    return None


def no_network() -> LocalFailure:
    return LocalFailure("this machine has no network: there is no route to any host", "network")


def has_network() -> bool:
    """Whether this machine has a route to any public address. A host that has only an IPv6 address may lack one alone."""
    for family, address in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 53))
        except OSError as error:
            if error.errno in _DESCRIPTORS | _MEMORY:
                return True  # unknown: no socket could be opened
        else:
            return True
    return False
