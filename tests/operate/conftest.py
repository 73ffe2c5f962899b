"""Monitors of real workers, asked over HTTP."""

from __future__ import annotations

import asyncio
import http.client

import pytest

from silkline import Crawl, Frontier, Politeness
from silkline.testing import LocalSite
from silkline.worker.crawl.crawl import FetchOptions


class Got:
    """An answer."""

    def __init__(self, port, path, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            self.status, self.text = response.status, response.read().decode()
            self.type = response.headers["Content-Type"]
        finally:
            connection.close()


@pytest.fixture
def get():
    async def get_(port, path, method="GET"):
        return await asyncio.to_thread(Got, port, path, method)

    return get_


@pytest.fixture
def new_crawl(crawl):
    def make(start, **settings):
        settings = {"politeness": Politeness(delay=0, concurrency=8), **settings}
        made = Crawl(crawl, start, retries=[0.05], fetching=FetchOptions(allow_private=True), **settings)

        @made.handler
        def parse(page):
            yield {"url": page.url}
            yield page.follow(page.css("a[href]"))

        return made

    return make


@pytest.fixture
async def site():
    pages = {f"/{number}": f'<a href="/{number + 1}">next</a><a href="/">home</a>' for number in range(20)}
    routes = {**pages, "/": '<a href="/1">1</a>', "/20": "the end"}
    async with LocalSite(routes) as site:
        yield site


@pytest.fixture
async def open_crawl(valkey):
    opened = []

    async def open_(made):
        opened.append(await Frontier.open(valkey.url, crawl=made.name, **made.arguments))
        await opened[-1].enqueue(await made.starts())
        return opened[-1]

    yield open_
    for frontier in opened:
        await frontier.close()
