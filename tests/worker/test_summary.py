"""What a run tells at its end."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from silkline import Budget, Crawl, FetchOptions, Politeness, SyncFrontier
from silkline.cli.run.summary import show_summary
from silkline.errors import ConfigError, SettingsConflict
from silkline.runtime.counters import Counters
from silkline.testing import LocalSite
from silkline.worker.process.reports import WorkerReport, read_report
from silkline.worker.process.run import conclude, enqueue_starts, open_to_run, run
from silkline.worker.process.summary import DeadReason, RunInfo


def test_a_report_is_read_as_it_was_written():
    counters = Counters(pages=3)
    counters.fetched("a.example", 200, 10, 0.5)
    counters.errors["timeout"] += 2
    sent = WorkerReport(7, counters, 4, "trouble")
    received = read_report(msgspec.json.encode(sent))
    assert received == sent
    received.counters.statuses[200] += 1
    assert received.counters.add(counters).statuses == {200: 3}


# ── a run in this process ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def site():
    with LocalSite({"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "one", "/2": 404}) as running:
        yield running


def make(name, start, **settings):
    arguments = {
        "politeness": Politeness(delay=0),
        "fetching": FetchOptions(allow_private=True, obey_robots=False),
        **settings,
    }
    crawl = Crawl(name, start=start, **arguments)

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
    (dead,) = first.dead_letters
    assert dead == DeadReason("status 404", 1, site.at("/2"), "status 404", dead.id)
    assert dead.id.startswith("0-")
    again = run(make(crawl, site.url), out, redis=valkey.url)
    assert (again.resumed, again.pages, again.done) == (True, 0, 2)
    fresh = run(make(crawl, site.url), out, redis=valkey.url, fresh=True)
    assert (fresh.resumed, fresh.pages) == (False, 2)
    assert len((tmp_path / "items.jsonl").read_text().splitlines()) == 4


def test_a_handler_that_got_no_page_is_named_at_the_end(site, valkey, crawl):
    def made(**settings):
        mine = make(crawl, site.url, **settings)

        @mine.handler
        def product(page):
            yield {}

        return mine

    summary = run(made(budget=Budget(pages=1)), redis=valkey.url)
    assert (summary.finished, summary.unused_handlers) == (True, []), "it might get some of the pages that are left"
    summary = run(made(), redis=valkey.url)
    assert (summary.finished, summary.unused_handlers) == (True, ["product"])
    console = Console(record=True, width=80, file=io.StringIO())
    show_summary(summary, [], "silkline run shop.py", console)
    told = "handler product got no page: check that the selectors of the other handlers find its links, then start over"
    assert told in " ".join(console.export_text().split())


def test_settings_that_changed_are_reported_field_by_field(site, valkey, crawl):
    run(make(crawl, site.url), redis=valkey.url)
    changed = make(crawl, site.url, budget=Budget(pages=5), seen="compact", order="lifo")
    with pytest.raises(SettingsConflict) as raised:
        run(changed, redis=valkey.url)
    assert "other settings: seen was exact, now compact; order was fifo, now lifo. " in str(raised.value)
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        assert frontier.layout.settings.budget == Budget()


def test_a_changed_dead_limit_is_applied_and_reported_when_it_drops(valkey, crawl, caplog):
    with LocalSite({"/": "".join(f"<a href=/gone{n}>x</a>" for n in range(6))}) as site:
        first = run(make(crawl, site.url, dead_limit=4), redis=valkey.url)
        assert (first.dead, first.dead_dropped) == (4, 2)
        assert [record.levelname for record in caplog.records if "the oldest are dropped" in record.message] == [
            "WARNING"
        ]
        assert f"raise dead_limit (0 keeps all); to retry or delete some, see: silkline dead ls {crawl}" in caplog.text
        again = run(make(crawl, site.url, dead_limit=3), redis=valkey.url)
        assert (again.resumed, again.dead, again.dead_dropped) == (True, 3, 3)
        run(make(crawl, site.url), redis=valkey.url)
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        assert frontier.layout.settings.dead_limit == 3, "a file without a limit changes none"


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


async def test_sinks_are_reported_the_end_and_of_nothing_before(site, valkey, crawl):
    sink = Ending()

    mine = make(crawl, site.at("/1"))
    mine.sink(lambda: sink)
    async with (await open_to_run(mine, valkey.url)).frontier as frontier:
        await enqueue_starts(mine, frontier)
        half_way = await conclude(mine, frontier, Counters(), RunInfo(), [])
        assert (half_way.finished, half_way.ready, sink.finished) == (False, 1, 0)
        await frontier.complete((await frontier.claim(1))[0])
        end = await conclude(mine, frontier, Counters(), RunInfo(), [])
        assert (end.finished, end.ready, sink.finished) == (True, 0, 1)
