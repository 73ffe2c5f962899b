"""``python -m silkline.testing.site``: serve a shop, or the hostile pages, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec
import uvloop

from silkline.testing.site.hostile import hostile_pages
from silkline.testing.site.local import LocalSite
from silkline.testing.site.process import Place, Plan
from silkline.testing.site.shop import Shop


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m silkline.testing.site", description=__doc__)
    parser.add_argument("--pages", type=int, default=2000, help="pages of the shop (2000)")
    parser.add_argument("--page-bytes", type=int, default=0, help="at least so many bytes a page")
    parser.add_argument("--no-trouble", action="store_true", help="a shop where nothing is slow, busy or broken")
    parser.add_argument("--hostile", action="store_true", help="the hostile pages instead of a shop")
    parser.add_argument("--hosts", type=int, default=1, help="loopback addresses to serve at (1)")
    parser.add_argument("--port", type=int, default=0, help="a free one unless given")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds that every answer takes")
    parser.add_argument("--piped", action="store_true", help=argparse.SUPPRESS)  # how SiteProcess calls it
    return parser.parse_args()


def make_plan(args: argparse.Namespace) -> Plan:
    shop = Shop(pages=args.pages, trouble=not args.no_trouble, page_bytes=args.page_bytes)
    wanted = None if args.hostile else shop
    return Plan(shop=wanted, hostile=args.hostile, hosts=args.hosts, port=args.port, latency=args.latency)


def make_site(plan: Plan) -> LocalSite:
    routes = plan.shop if plan.shop is not None else hostile_pages()
    return LocalSite(routes, hosts=plan.hosts, port=plan.port, latency=plan.latency)


async def serve_people(plan: Plan) -> None:
    """Say where it is, and serve until Ctrl-C."""
    async with make_site(plan) as site:
        sys.stdout.write(f"Serving at {site.url} (Ctrl-C ends it)\n")
        for host in site.hosts[1:]:
            sys.stdout.write(f"       and http://{host}/\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


async def serve_piped() -> None:
    """Serve until the other end of the pipe is closed; answer one line with one line."""
    loop = asyncio.get_running_loop()
    plan = msgspec.json.decode(await loop.run_in_executor(None, sys.stdin.readline), type=Plan)
    async with make_site(plan) as site:
        reply(msgspec.json.encode(Place(site.url, site.hosts)))
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
