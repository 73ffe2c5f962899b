"""What a run tells at its end."""

from __future__ import annotations

import msgspec
import pytest

from silkline import Budget, Crawl, Fetching, Politeness, Request, SyncFrontier
from silkline.core.errors import ConfigError
from silkline.frontier.letters import DeadLetter
from silkline.testing import LocalSite
from silkline.worker.report import Report, read_report
from silkline.worker.run import conclude, enqueue_starts, open_to_run, run
from silkline.worker.summary import Course, DeadReason, by_reason, short_reason
from silkline.worker.tally import Tally

TRACEBACK = """gave up after 3 attempts: handler product: Traceback (most recent call last):
  File "books.py", line 7, in product
    price = page.css_first("p.price").text()
AttributeError: 'NoneType' object has no attribute 'text'
"""


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        ("status 404", "status 404"),
        ("gave up after 5 attempts: timeout: 30 s are over", "timeout: 30 s are over"),
        (TRACEBACK, "handler product: AttributeError: 'NoneType' object has no attribute 'text'"),
        ("", "no reason was given"),
        ("x" * 500, "x" * 199 + "…"),
    ],
)
def test_a_reason_in_one_line(reason, short):
    assert short_reason(reason) == short


def letter(reason, url):
    return DeadLetter("1", Request(url), reason, None, 1, 0, 0.0, 0.0, (), "a.example")


def test_reasons_that_differ_only_in_an_address_are_one():
    letters = [
        letter(f"redirected to https://a.example/{number}", f"https://b.example/{number}") for number in range(3)
    ]
    found = by_reason([letter("status 404", "https://c.example/"), *letters])
    assert found == [
        DeadReason("redirected to …", 3, "https://b.example/0"),
        DeadReason("status 404", 1, "https://c.example/"),
    ]


def test_a_report_is_read_as_it_was_written():
    tally = Tally(pages=3)
    tally.fetched("a.example", 200, 10, 0.5)
    tally.errors["timeout"] += 2
    sent = Report(7, tally, 4, "trouble")
    received = read_report(msgspec.json.encode(sent))
    assert received == sent
    received.tally.statuses[200] += 1
    assert received.tally.add(tally).statuses == {200: 3}


# ── a run in this process ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def site():
    with LocalSite({"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "one", "/2": 404}) as running:
        yield running


def make(name, start, **settings):
    wishes = {
        "politeness": Politeness(delay=0),
        "fetching": Fetching(allow_private=True, obey_robots=False),
        **settings,
    }
    crawl = Crawl(name, start=start, **wishes)

    @crawl.handler
    def page(page):
        yield {"url": page.url}
        yield page.follow(page.css("a"))

    return crawl


def test_a_program_runs_a_crawl_resumes_it_and_starts_over(site, valkey, crawl, tmp_path):
    out = str(tmp_path / "items.jsonl")
    first = run(make(crawl, site.url), out, redis=valkey.url)
    assert (first.finished, first.sound, first.resumed) == (True, False, False)
    assert (first.pages, first.items, first.dead) == (2, 2, 1)
    assert first.dead_letters == [DeadReason("status 404", 1, site.at("/2"))]
    again = run(make(crawl, site.url), out, redis=valkey.url)
    assert (again.resumed, again.pages, again.done) == (True, 0, 2)
    fresh = run(make(crawl, site.url), out, redis=valkey.url, fresh=True)
    assert (fresh.resumed, fresh.pages) == (False, 2)
    assert len((tmp_path / "items.jsonl").read_text().splitlines()) == 4


def test_settings_that_changed_are_told_field_by_field(site, valkey, crawl):
    run(make(crawl, site.url), redis=valkey.url)
    changed = make(crawl, site.url, budget=Budget(pages=5), seen="compact")
    with pytest.raises(ConfigError) as raised:
        run(changed, redis=valkey.url)
    assert "other settings: budget pages was None, now 5; seen was exact, now compact. " in str(raised.value)


def test_a_hook_that_fails_is_named(site, valkey, crawl):
    broken = make(crawl, site.url)

    @broken.on_finish
    def tell(summary):
        raise RuntimeError("no mail today")

    with pytest.raises(ConfigError, match=r"on_finish hook tell failed: RuntimeError: no mail today .*test_summary.py"):
        run(broken, redis=valkey.url)
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        assert frontier.finished()


class Ending:
    """A sink that wants to know when the crawl ends."""

    def __init__(self):
        self.finished = 0

    async def write(self, records):
        pass

    async def finish(self):
        self.finished += 1

    async def close(self):
        pass


async def test_sinks_are_told_of_the_end_and_of_nothing_before(site, valkey, crawl):
    sink = Ending()

    mine = make(crawl, site.at("/1"))
    mine.sink(lambda: sink)
    async with (await open_to_run(mine, valkey.url)).frontier as frontier:
        await enqueue_starts(mine, frontier)
        half_way = await conclude(mine, frontier, Tally(), Course(), [])
        assert (half_way.finished, half_way.ready, sink.finished) == (False, 1, 0)
        await frontier.complete((await frontier.claim(1))[0])
        end = await conclude(mine, frontier, Tally(), Course(), [])
        assert (end.finished, end.ready, sink.finished) == (True, 0, 1)
