"""``python -m silkline.testing.site [MODULE:FUNCTION]``: serve a shop, or the routes of a function, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from importlib import import_module

import msgspec
import uvloop

from silkline.errors import ConfigError
from silkline.testing.site.local import LocalSite
from silkline.testing.site.process import SiteAddress, SitePlan
from silkline.testing.site.responses import Route
from silkline.testing.site.shop import Shop


def read_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m silkline.testing.site", description=__doc__)
    parser.add_argument("site", nargs="?", metavar="MODULE:FUNCTION", help="a function that returns routes (a shop)")
    parser.add_argument("--pages", type=int, default=2000, help="pages of the shop (2000)")
    parser.add_argument("--page-bytes", type=int, default=0, help="smallest size of a page in bytes (0)")
    parser.add_argument("--no-trouble", action="store_true", help="no slow, busy or broken pages")
    parser.add_argument("--hosts", type=int, default=1, help="loopback addresses to serve at (1)")
    parser.add_argument("--port", type=int, default=0, help="port (a free one)")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before every response (0)")
    parser.add_argument("--piped", action="store_true", help=argparse.SUPPRESS)  # how SiteProcess calls it
    return parser.parse_args()


def make_plan(args: argparse.Namespace) -> SitePlan:
    shop = Shop(pages=args.pages, trouble=not args.no_trouble, page_bytes=args.page_bytes)
    return SitePlan(site=args.site or shop, hosts=args.hosts, port=args.port, latency=args.latency)


def make_site(plan: SitePlan) -> LocalSite:
    routes = load_routes(plan.site) if isinstance(plan.site, str) else plan.site
    return LocalSite(routes, hosts=plan.hosts, port=plan.port, latency=plan.latency)


def load_routes(name: str) -> Mapping[str, Route]:
    """Import ``MODULE:FUNCTION`` and return what the function returns."""
    module, colon, function = name.partition(":")
    if not colon:
        raise ConfigError(f"a site must be MODULE:FUNCTION, such as tests.site:routes, got {name!r}")
    routes: Mapping[str, Route] = getattr(import_module(module), function)()
    return routes


async def serve_people(plan: SitePlan) -> None:
    """Print the addresses and serve until Ctrl-C."""
    async with make_site(plan) as site:
        sys.stdout.write(f"Serving at {site.url} (Ctrl-C stops it)\n")
        for host in site.hosts[1:]:
            sys.stdout.write(f"       and http://{host}/\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


async def serve_piped() -> None:
    """Serve until the parent closes the pipe; reply to each line with one line."""
    loop = asyncio.get_running_loop()
    plan = msgspec.json.decode(await loop.run_in_executor(None, sys.stdin.readline), type=SitePlan)
    sys.path += [place for place in plan.path if place not in sys.path]
    async with make_site(plan) as site:
        reply(msgspec.json.encode(SiteAddress(site.url, site.hosts)))
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            if line.strip() == "visits":
                reply(msgspec.json.encode(list(site.visits)))
            else:
                site.forget()
                reply(b"{}")


def reply(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    args = read_arguments()
    try:
        uvloop.run(serve_piped() if args.piped else serve_people(make_plan(args)))
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
