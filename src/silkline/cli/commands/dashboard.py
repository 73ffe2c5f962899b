"""``silkline dashboard``: serve the web dashboard."""

from __future__ import annotations

import asyncio
import importlib
import threading
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.cli.logs import LogJson, log_to_screen
from silkline.cli.options.server import Redis, existing
from silkline.cli.plugins import register_scrapy
from silkline.errors import ConfigError, SilklineError
from silkline.frontier.arguments import embedded_in
from silkline.frontier.crawl_server import CrawlServer
from silkline.frontier.transport.redis_url import without_password

DEFAULT_PORT = 7455
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def dashboard(  # noqa: PLR0913 - each is an option of the command
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: Annotated[str | None, Parameter(env_var="SILKLINE_TOKEN")] = None,
    token_file: Path | None = None,
    read_only: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    proxy: Annotated[list[str] | None, Parameter(negative=())] = None,
    log_json: LogJson = False,
    redis: Redis = None,
) -> int:
    """Serve a web dashboard of all crawls of a server.

    Without a token the dashboard is read-only for everyone who can reach it.
    With a token, users must sign in (or send it as a bearer token, or as the
    password of basic authentication) and can pause, revive, block and so on.
    The audit log records their actions.

    Examples:
      silkline dashboard
      SILKLINE_TOKEN=$(openssl rand -hex 16) silkline dashboard --host 0.0.0.0

    If the server is unavailable, the dashboard warns and keeps trying.

    Exit code: 0, 2 wrong usage.

    Parameters
    ----------
    host
        Name or address to listen on.
    port
        Port to listen on; 0 selects a free port.
    token
        Token to sign in with, at least 16 characters. Prefer the variable: other users of the machine can read the option.
    token_file
        File that contains the token.
    read_only
        Allow no changes, even with the token.
    proxy
        Address or network of a reverse proxy whose X-Forwarded-Proto header is trusted; proxies on this machine always are. May be repeated.
    """
    if log_json:
        log_to_screen("info", as_json=True)
    register_scrapy()
    module = importlib.import_module("silkline.dashboard")  # the error names the missing package
    server: Any = importlib.import_module("silkline.dashboard.server")
    url, secret = existing(redis), _token(token, token_file)
    proxies = [server.check_proxy(one) for one in proxy or ()]
    app = module.app(url, token=secret, read_only=read_only, hosts=None if secret else (host,))
    listener = server.listen(host, port)

    def announce() -> None:
        screen.show(f"Dashboard of {without_password(url)}: {server.address(listener)}")
        screen.remark(_mode(host, secret, read_only=read_only))
        if not embedded_in(url):
            threading.Thread(target=_warn_if_unreachable, args=(url,), daemon=True).start()

    server.serve(app, listener, announce, proxies)
    return Exit.OK


def _warn_if_unreachable(url: str) -> None:
    try:
        asyncio.run(_reach(url))
    except SilklineError as error:
        screen.remark(f"[yellow]{escape(str(error))}[/] The dashboard keeps trying.")


async def _reach(url: str) -> None:
    await (await CrawlServer.open(url)).close()


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
        return "[yellow]Anyone who can reach this machine can read it: set SILKLINE_TOKEN to require a login.[/]"
    if token is None:
        return "[dim]Read-only; set SILKLINE_TOKEN to allow changes. Ctrl-C stops it.[/]"
    return f"[dim]Sign in with the token{', read-only' if read_only else ''}. Ctrl-C stops it.[/]"
