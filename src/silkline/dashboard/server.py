"""Serves the dashboard: a socket, uvicorn, and an end at Ctrl-C."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from silkline.core.errors import ConfigError
from silkline.dashboard.application import Dashboard

try:
    import uvicorn
except ModuleNotFoundError:
    raise ConfigError("to serve the dashboard, uvicorn is needed: pip install 'silkline[dashboard]'") from None


LOOPBACK = ("127.0.0.1", "::1")


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on; port 0 takes any that is free."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"nothing can listen on {host}:{port}: {error}") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise ConfigError(f"nothing can listen on {host}:{port}: {reason}; --port names another one") from None
    return listener


def check_proxy(text: str) -> str:
    """An address, or a network of them; a name, or all the world, is refused."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise ConfigError(
            f"--proxy is an address such as 10.0.0.5, or a network such as 10.0.0.0/24, got {text!r}"
        ) from None
    if network.prefixlen == 0:
        raise ConfigError(f"--proxy {text} would believe everybody; name the proxy's address")
    return text


def address(listener: socket.socket) -> str:
    """For people to open."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, host)  # noqa: S104 - only shown
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"


def serve(dashboard: Dashboard, listener: socket.socket, proxies: Sequence[str] = ()) -> None:
    """Until Ctrl-C or SIGTERM. Proxies on this machine, and *proxies*, are believed when they say that they were asked by https."""
    config = uvicorn.Config(
        dashboard,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        forwarded_allow_ips=[*LOOPBACK, *map(check_proxy, proxies)],
    )
    uvicorn.Server(config).run(sockets=[listener])
