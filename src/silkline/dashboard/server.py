"""Serve the dashboard with uvicorn until Ctrl-C."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from types import FrameType

from silkline.dashboard.application import Dashboard
from silkline.errors import ConfigError

try:
    import uvicorn
except ModuleNotFoundError:
    raise ConfigError("the dashboard needs the package uvicorn: pip install 'silkline[dashboard]'") from None


LOOPBACK = ("127.0.0.1", "::1")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error}") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot listen on {host}:{port}: {reason}; use --port to select another port") from None
    return listener


def check_proxy(text: str) -> str:
    """Validate an address or network; names and networks that contain every address are refused."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise ConfigError(
            f"--proxy must be an address such as 10.0.0.5, or a network such as 10.0.0.0/24, got {text!r}"
        ) from None
    if network.prefixlen == 0:
        raise ConfigError(f"--proxy {text} would trust every client; give the address of the proxy")
    return text


def address(listener: socket.socket) -> str:
    """Return the URL to open in a browser."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, host)  # noqa: S104 - only shown
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"


def serve(
    dashboard: Dashboard, listener: socket.socket, announce: Callable[[], None], proxies: Sequence[str] = ()
) -> None:
    """Call *announce*, then serve until Ctrl-C or SIGTERM. The X-Forwarded-Proto header of *proxies* and of this machine is trusted.

    The signals are handled before *announce* is called. Python's own handler raises KeyboardInterrupt, which is lost if it hits a
    callback of a weak reference, and these run while uvicorn imports its modules.
    """
    config = uvicorn.Config(
        dashboard,
        log_config=None if logging.getLogger().handlers else uvicorn.config.LOGGING_CONFIG,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        forwarded_allow_ips=[*LOOPBACK, *map(check_proxy, proxies)],
    )
    server, received = uvicorn.Server(config), []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        server.handle_exit(number, frame)

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        announce()
        server.run(sockets=[listener])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])  # the process ends as other commands do
