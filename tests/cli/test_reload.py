"""``silkline run --reload``: the file of a crawl is edited while it runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from silkline import Retries
from tests.cli.sites import lines_of

CODE = """
from rates import RATE

@crawl.handler
def page(page):
    yield {"path": page.url.rpartition("/")[2], "version": VERSION, "rate": RATE}
    yield page.follow(page.css("a"))

VERSION = 1
"""


@pytest.fixture
def gates(site):
    """A site whose pages /1 to /3 are served when they are opened; each links to the next one."""
    opened = [threading.Event() for _ in range(4)]
    asked = [threading.Event() for _ in range(4)]

    def routes():
        yield "/", "<a href=/1>1</a>"
        for number in range(1, 4):
            yield f"/{number}", lambda visit, number=number: served(number)

    async def served(number):
        asked[number].set()
        await asyncio.to_thread(opened[number].wait, 100)
        return f"<a href=/{number + 1}>next</a>" if number < 3 else "end"

    here = site(dict(routes()))
    here.opened, here.asked = opened, asked
    yield here
    for event in opened:
        event.set()


def test_a_changed_file_is_used_for_the_next_pages_and_none_is_lost(running, gates, write, workplace, valkey):
    (workplace / "rates.py").write_text("RATE = 1\n")
    file = workplace / write(gates, code=CODE, concurrency=1)
    run = running("run", file.name, "-o", "x.jsonl", "--reload", "--fresh", "--yes", SILKLINE_REDIS=valkey.url)
    assert gates.asked[1].wait(100)

    good = file.read_text()
    file.write_text(good.replace("yield {", "yield {{{"))
    run.wait_for("books.py has changed, but has an error, so the workers continue with the version before")
    assert "SyntaxError" in run.err
    assert run.process.poll() is None

    file.write_text(good.replace("VERSION = 1", "VERSION = 2"))
    run.wait_for("books.py has changed: the workers start again with it")
    gates.opened[1].set()  # the page in progress ends first, with the handler that began it
    assert gates.asked[2].wait(100)
    run.wait_for("resuming ")

    (workplace / "rates.py").write_text("RATE = 22\n")
    run.wait_for("rates.py has changed: the workers start again with it")
    gates.opened[2].set()
    gates.opened[3].set()
    assert run.end() == 0
    items = sorted(lines_of(workplace / "x.jsonl"), key=lambda item: item["path"])
    assert [tuple(item.values()) for item in items] == [("", 1, 1), ("1", 1, 1), ("2", 2, 1), ("3", 2, 22)]
    assert gates.visits.paths == ["/", "/1", "/2", "/3"]


def test_without_the_option_a_changed_file_changes_nothing(running, gates, write, workplace, valkey):
    (workplace / "rates.py").write_text("RATE = 1\n")
    file = workplace / write(gates, code=CODE, concurrency=1)
    run = running("run", file.name, "-o", "x.jsonl", SILKLINE_REDIS=valkey.url)
    assert gates.asked[1].wait(100)
    file.write_text(file.read_text().replace("VERSION = 1", "VERSION = 2"))
    for event in gates.opened:
        event.set()
    assert run.end() == 0
    assert {item["version"] for item in lines_of(workplace / "x.jsonl")} == {1}


FAILING = """
@crawl.handler
def page(page):
    yield {"path": page.url.rpartition("/")[2], "title": page.text_of("h2")}
"""


def test_a_crawl_that_has_paused_itself_continues_when_its_file_is_corrected(running, site, write, workplace, valkey):
    here = site({"/*": "<h1>x</h1>"})
    starts = [here.at(f"/{number}") for number in range(9)]
    file = workplace / write(starts, code=FAILING, retries=Retries(pause_after=3))
    run = running("run", file.name, "-o", "x.jsonl", "--reload", "--revive", SILKLINE_REDIS=valkey.url)
    run.wait_for("the crawl has paused itself because the last 3 pages of handler page all failed with ElementNotFound")
    run.wait_for("correct books.py and save it, or press Ctrl-C")
    file.write_text(file.read_text().replace("h2", "h1"))
    run.wait_for("resuming ")
    assert run.process.wait(100) == 0
    assert {item["path"] for item in lines_of(workplace / "x.jsonl")} == set("012345678")


def test_ctrl_c_while_the_workers_end_their_pages_ends_the_run(running, gates, write, workplace, valkey):
    (workplace / "rates.py").write_text("RATE = 1\n")
    file = workplace / write(gates, code=CODE, concurrency=1)
    run = running("run", file.name, "--reload", SILKLINE_REDIS=valkey.url)
    assert gates.asked[1].wait(100)
    file.write_text(file.read_text().replace("VERSION = 1", "VERSION = 2"))
    run.wait_for("books.py has changed: the workers start again with it")
    run.process.send_signal(2)
    run.wait_for("press Ctrl-C again to exit now")
    gates.opened[1].set()
    assert run.end() == 130
    assert "/2" not in gates.visits.paths
