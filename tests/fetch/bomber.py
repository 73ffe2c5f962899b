"""Fetches each URL four times at once, in a process of its own, and tells how far its memory grew at most."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from urllib.parse import urljoin

import uvloop

from silkline import Request
from silkline.errors import ResponseTooLarge
from silkline.fetch.aiohttp_fetcher import AiohttpFetcher
from silkline.fetch.guard import Guard
from silkline.fetch.wreq_fetcher import WreqFetcher


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(kind, urls):
    fetcher = {"wreq": WreqFetcher, "aiohttp": AiohttpFetcher}[kind](guard=Guard(allow_private=True))
    await fetcher.fetch(Request(urljoin(urls[0], "/status/200")), user_agent="warm-up/1")
    before = peak()
    for url in urls:
        ends = await asyncio.gather(
            *(fetcher.fetch(Request(url), user_agent="bomber/1") for _ in range(4)), return_exceptions=True
        )
        assert {type(end) for end in ends} == {ResponseTooLarge}, ends
    await fetcher.close()
    print(json.dumps({"grown": peak() - before}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2:]))
