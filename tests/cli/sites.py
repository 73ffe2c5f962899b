"""Crawl files and sites for the tests of runs."""

from __future__ import annotations

import json
import time
from textwrap import dedent

HEAD = """
from silkline import Backoff, Budget, Crawl, Drop, FetchOptions, Page, Politeness, Request, Retries, Scope

crawl = Crawl(
    {name!r},
    start={start!r},
    politeness=Politeness(delay={delay}, concurrency={concurrency}),
    retries={retries!r},
    fetching=FetchOptions(allow_private=True, obey_robots={obey_robots}),
)
"""
PAGES = """
@crawl.handler
def page(page):
    yield {"path": page.url.partition("/")[2].partition("/")[2].partition("/")[2], "status": page.status}
    yield page.follow(page.css("a"))
"""
SHOP = """
@crawl.handler
def listing(page):
    yield page.follow(page.css("a.product"), product)
    yield page.follow(page.css_first("a.next"))


@crawl.handler
def product(page):
    yield {"sku": page.css_first("p.sku").text(), "title": page.css_first("h1").text(),
           "price": page.css_first("p.price").text()}
"""


def write_crawl(path, name, start, code=PAGES, **settings):
    """A file that defines a crawl, impolite because the site is ours."""
    arguments = {"delay": 0, "concurrency": 4, "retries": [0.05], "obey_robots": False, **settings}
    path.write_text(HEAD.format(name=name, start=start, **arguments) + dedent(code))
    return path.name


def chain(count, **more):
    """Routes of a site whose front page links to /1 to /count."""
    links = "".join(f"<a href=/{number}>{number}</a>" for number in range(1, count + 1))
    return {"/": links, **{f"/{number}": f"<h1>{number}</h1>" for number in range(1, count + 1)}, **more}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_until(condition, seconds=100):
    """Look until it holds: for what another process does and nobody tells of."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
