"""Fetches while this process has no file descriptor left, and again when it has; prints what came of both."""

from __future__ import annotations

import resource
import socket
import sys
from contextlib import suppress

import uvloop

from silkline import Request
from silkline.errors import SilklineError
from silkline.fetch.aiohttp_fetcher import AiohttpFetcher
from silkline.fetch.guard import Guard
from silkline.fetch.wreq_fetcher import WreqFetcher

FETCHERS = {"wreq": WreqFetcher, "aiohttp": AiohttpFetcher}


async def end_of(fetcher, url):
    try:
        return (await fetcher.fetch(Request(url), user_agent="starved/1")).status
    except SilklineError as error:
        return f"{type(error).__name__} {error.kind}"


async def main(kind, url, by_name):
    fetcher = FETCHERS[kind](guard=Guard(allow_private=True))
    ends = [await end_of(fetcher, url)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = []
    with suppress(OSError):
        while True:
            held.append(socket.socket())
    ends += [await end_of(fetcher, by_name), await end_of(fetcher, url.replace("127.0.0.1", "127.0.0.2"))]
    for one in held:
        one.close()
    ends += [await end_of(fetcher, by_name)]
    await fetcher.close()
    print(*ends, sep=", ")


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
