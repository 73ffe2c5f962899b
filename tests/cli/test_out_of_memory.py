"""A server without memory left: the commands name the cause, and not the capacity of the crawl."""

from __future__ import annotations

import re

import pytest

from silkline import SyncFrontier
from silkline.worker.crawl.loading import load_crawl
from tests.chaos.test_out_of_memory import NEW, URLS, no_memory_left
from tests.cli.sites import chain


@pytest.fixture
def small(own_server):
    """A server whose memory is used up by a crawl with one request, and that crawl's file."""
    server = own_server()
    with SyncFrontier.open(server.url, crawl="small") as frontier:
        frontier.enqueue(URLS[:1])
    return server


def test_enqueue_names_the_lack_of_memory_and_not_the_capacity(small, here):
    with no_memory_left(small):
        answer = here("enqueue", "small", *NEW, "--no-wait", "--redis", small.url)
    assert answer.code == 3
    said = " ".join(answer.err.split())
    assert "is full" not in said
    assert re.search(
        rf"because the server {small.url} is out of memory \([\d.]+ [KM]iB of [\d.]+ [KM]iB\): raise", said
    )
    assert "silkline doctor shows more. Run the same command again later" in said


@pytest.mark.parametrize("command", ["run", "start"])
def test_run_and_start_name_the_lack_of_memory(command, small, here, workplace):
    with SyncFrontier.open(small.url, crawl="new"):
        pass
    (workplace / "new.py").write_text(
        "from silkline import Crawl\ncrawl = Crawl('new', 'https://shop.example/')\n@crawl.handler\ndef page(page): ...\n"
    )
    with no_memory_left(small):
        answer = here(command, "new.py", "--redis", small.url)
    assert answer.code == 3
    assert "is out of memory" in answer.err
    assert "raise its maxmemory" in " ".join(answer.err.split())
    assert "has no start URLs" not in answer.err


def test_a_worker_logs_it(small, running, site, write, workplace):
    here = site(chain(3))
    file = write(here)
    crawl = load_crawl(str(workplace / file))
    with SyncFrontier.open(small.url, crawl=crawl.name, **crawl.arguments) as frontier:
        frontier.enqueue([request.url for request in crawl.listed_starts()])
    with no_memory_left(small):
        worker = running("worker", file, "--redis", small.url)
        worker.wait_for(f"nothing is lost: the server {small.url} is out of memory")
