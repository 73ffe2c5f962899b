"""Names to addresses: asked in threads of its own, with a time limit."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from silkline.core.errors import HostUnreachable

THREADS = 32
"""A look-up blocks its thread, and a dead name server blocks it for long; the event loop's own few are not enough."""


class Resolver(Protocol):
    """Turns a host name into addresses. Give the guard another one to use DNS over HTTPS, or a fake in tests."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Every address of *host*, the best first; `HostUnreachable` of kind ``dns`` when it has none."""

    async def close(self) -> None:
        """Let go of what it holds."""


class SystemResolver:
    """The resolver of the operating system: hosts file, DNS and whatever else is configured."""

    def __init__(self, timeout: float = 10.0) -> None:
        self._timeout = timeout
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="silkline-dns")

    async def resolve(self, host: str) -> Sequence[str]:
        # RFC 6761: every name below localhost is the loopback; not every system knows it.
        name = "localhost" if f".{host.rstrip('.')}".endswith(".localhost") else host
        looking = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, name)
        try:
            return await asyncio.wait_for(looking, self._timeout)
        except TimeoutError:
            raise HostUnreachable(f"no address for {host} within {self._timeout:g} s", "dns") from None
        except socket.gaierror as error:
            raise HostUnreachable(f"no address for {host}: {error.strerror}", "dns") from None
        except (OSError, UnicodeError) as error:
            raise HostUnreachable(f"no address for {host}: {error}", "dns") from None

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(name: str) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
