"""Pages that no worker can handle: `run`, `status` and `workers ls` tell what they wait for."""

from __future__ import annotations

import pytest

from silkline import Request, SyncFrontier
from silkline.worker.crawl.loading import load_crawl
from tests.cli.sites import chain, lines_of, wait_until

WAITS = "2 pages wait for a worker with a handler named 'product_v2': no live worker has it"


@pytest.fixture
def older(site, write, workplace, valkey):
    """The file of a crawl whose newer file has left two pages for a handler that this one does not have."""
    here = site(chain(3))
    file = write(here)
    crawl = load_crawl(str(workplace / file))
    with SyncFrontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        frontier.enqueue([Request(here.at(f"/v2/{n}"), handler="product_v2") for n in (1, 2)])
    return file


def test_a_run_alone_says_what_is_missing_and_ends_with_code_1(silkline, older, valkey, workplace, crawl):
    answer = silkline("run", older, "-o", "items.jsonl", "--redis", valkey.url)
    assert answer.code == 1
    assert f"{crawl} is not finished: 2 requests are left" in answer.out
    assert WAITS in answer.out
    assert "@crawl.handler(name=…)" in answer.out
    assert "given back" in answer.out
    assert answer.err.count("cannot handle pages that need a handler named 'product_v2'") == 1
    assert len(lines_of(workplace / "items.jsonl")) == 4


def test_the_commands_of_operators_tell_it_while_a_worker_is_there(running, operate, older, valkey, crawl):
    worker = running("worker", older, "--redis", valkey.url)
    worker.wait_for("cannot handle pages")
    wait_until(lambda: WAITS in operate("status", crawl).out)
    assert operate("status", crawl, "--json").json["waits_for"] == [
        {"need": "handler:product_v2", "pages": 2, "workers": 1, "met": False}
    ]
    listed = operate("workers", "ls", crawl).out
    assert WAITS in listed
    assert "cannot handle pages that need a handler named 'product_v2'" in listed
    assert operate("workers", "ls", crawl, "--json").json[0]["info"]["handlers"] == ["page"]
