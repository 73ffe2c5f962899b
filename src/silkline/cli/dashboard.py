"""``silkline dashboard``: the crawls of a server as web pages."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.server import Redis, existing
from silkline.core.errors import ConfigError
from silkline.frontier.address import without_password

DEFAULT_PORT = 7455
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def dashboard(
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: Annotated[str | None, Parameter(env_var="SILKLINE_TOKEN")] = None,
    token_file: Path | None = None,
    read_only: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    proxy: Annotated[list[str] | None, Parameter(negative=())] = None,
    redis: Redis = None,
) -> int:
    """Show all crawls of a server as web pages, live.

    Without a token everybody who reaches it may look, and nobody may act. With
    one, everybody must sign in with it (or send it as a bearer token, or as the
    password of basic authentication), and may pause, revive, block and so on.
    What they do is noted.

    Examples:
      silkline dashboard
      SILKLINE_TOKEN=$(openssl rand -hex 16) silkline dashboard --host 0.0.0.0 --redis redis://10.0.0.7:6379/0

    Exit code: 0, 2 wrong usage, 3 server unavailable.

    Parameters
    ----------
    host
        Name or address to listen on.
    port
        Port to listen on; 0 takes any that is free.
    token
        What those who look and act must know: 16 characters or more. The variable
        is better than the option, which others on the machine can read.
    token_file
        A file that holds the token.
    read_only
        Let nobody act, even with the token.
    proxy
        Address or network of a proxy that is believed when it says, with
        X-Forwarded-Proto, that it was asked by https; those on this machine are. May be repeated.
    """
    module = importlib.import_module("silkline.dashboard")  # says which package is missing
    server: Any = importlib.import_module("silkline.dashboard.server")
    url, secret = existing(redis), _token(token, token_file)
    proxies = [server.check_proxy(one) for one in proxy or ()]
    app = module.app(url, token=secret, read_only=read_only, hosts=None if secret else (host,))
    listener = server.listen(host, port)
    screen.show(f"Silkline's dashboard of {without_password(url)}: {server.address(listener)}")
    screen.remark(_mode(host, secret, read_only=read_only))
    server.serve(app, listener, proxies)
    return Exit.OK


def _token(token: str | None, file: Path | None) -> str | None:
    if file is None:
        return token or None
    if token:
        raise ConfigError("give --token or --token-file, not both")
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


def _mode(host: str, token: str | None, *, read_only: bool) -> str:
    if token is None and host not in LOOPBACK:
        return "[yellow]Everybody who reaches this machine can read it: set SILKLINE_TOKEN to have them sign in.[/]"
    if token is None:
        return "[dim]Read-only. To act, set SILKLINE_TOKEN. Ctrl-C ends it.[/]"
    return f"[dim]Sign in with the token{', read-only' if read_only else ''}. Ctrl-C ends it.[/]"
