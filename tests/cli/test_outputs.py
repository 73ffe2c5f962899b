"""Outputs belong to the crawl: a worker that joins stores its items where the run does, or says why it cannot."""

from __future__ import annotations

import os
import sqlite3

import msgspec
import pytest

from silkline import Crawl, Frontier, SyncFrontier
from silkline.errors import ConfigError
from silkline.frontier.store.run_options import Output, RunOptions
from silkline.worker.crawl.loading import load_crawl
from silkline.worker.process.outputs import CREDENTIALS, join_crawl, machine
from tests.cli.sites import chain, lines_of, wait_until
from tests.servers import Server


@pytest.fixture
def begun(running, valkey, site, write, frontier):
    """A crawl that `run` began with these arguments and left unfinished; answers its file."""

    def begin(*arguments, **options):
        here = site(chain(20), latency=0.05)
        file = write(here, **{"concurrency": 1, **options})
        run = running("run", file, *arguments, "-q", "--redis", valkey.url)
        wait_until(lambda: len(here.visits) > 3)
        run.process.terminate()
        assert run.end() == 143, run.err
        assert frontier(create=False).admin.stats().ready
        return file

    return begin


def test_a_worker_without_o_stores_its_items_where_the_run_did(begun, silkline, valkey, workplace, frontier):
    file = begun("-o", "items.jsonl")
    answer = silkline("worker", workplace / file, "--redis", valkey.url)
    assert answer.code == 0, answer.err
    assert f"items go to {workplace / 'items.jsonl'}" in answer.err
    assert len(lines_of(workplace / "items.jsonl")) == frontier().admin.stats().done == 21


@pytest.fixture
def stored(valkey, site, write, workplace):
    """A crawl of two pages, with what a run has stored for its workers; answers its file."""

    def store(options):
        file = write(site(chain(1)))
        crawl = load_crawl(str(workplace / file))
        with SyncFrontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
            frontier.admin.set_run_options(options)
            frontier.enqueue(crawl.listed_starts())
        return file

    return store


def test_a_run_continues_with_the_outputs_of_the_run_before_and_says_when_it_has_others(
    stored, silkline, valkey, workplace, operate, crawl
):
    before = Output(str(workplace / "items.jsonl"), machine=machine())
    file = stored(RunOptions(outputs=(before,), allow_private=True))
    answer = silkline("run", file, "--redis", valkey.url)
    assert answer.code == 0, answer.err
    assert f"items go to {before}, as in the previous run; use -o to change this" in answer.err
    assert len(lines_of(workplace / "items.jsonl")) == 2
    file = stored(RunOptions(outputs=(before,), allow_private=True))  # on another site, so there is more to do
    other = silkline("run", file, "-o", "other.jsonl", "--redis", valkey.url)
    assert f"until now they went to {before}" in other.err
    assert str(workplace / "other.jsonl") in operate("crawl", "show", crawl).out
    assert operate("status", crawl, "--json").json["run"] == {
        "outputs": [{"out": str(workplace / "other.jsonl"), "machine": machine()}],
        "allow_private": True,
    }


def test_a_worker_without_any_output_warns(stored, silkline, valkey):
    answer = silkline("worker", stored(RunOptions()), "--redis", valkey.url)
    assert answer.code == 0
    assert "no -o: items are counted, not kept" in answer.err


def test_a_worker_with_another_output_or_permission_than_its_crawl_says_so(stored, silkline, valkey, workplace):
    crawls = Output(str(workplace / "items.jsonl"), machine=machine())
    file = stored(RunOptions(outputs=(crawls,), allow_private=False))
    answer = silkline("worker", file, "-o", "mine.jsonl", "--redis", valkey.url)
    assert answer.code == 0
    assert f"this worker stores its items in {workplace / 'mine.jsonl'} on {machine()}; the crawl" in answer.err
    assert "this worker fetches private addresses, though the crawl" in answer.err
    same = silkline("worker", file, "-o", "./items.jsonl", "--redis", valkey.url)
    assert "this worker stores" not in same.err


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (Output("/data/items.jsonl", machine="elsewhere"), "a file on the machine elsewhere"),
        (Output("/nowhere/to/be/found/items.jsonl", machine=machine()), "cannot write"),
        (Output("-", machine="elsewhere"), "prints its items where `silkline run` was started"),
        (Output("s3://bucket/books", ("aws_secret_access_key",)), "its secrets (aws_secret_access_key) are not stored"),
        (Output("redis://{server}?key=items", ("password",)), "its secrets (password) are not stored"),
    ],
)
async def test_a_worker_that_cannot_use_the_crawls_output_refuses_with_a_sentence(output, why, guarded, valkey, crawl):
    """In this process: it never comes to work."""
    output = msgspec.structs.replace(output, out=output.out.replace("{server}", guarded))
    async with await Frontier.open(valkey.url, crawl=crawl) as frontier:
        await frontier.admin.set_run_options(RunOptions(outputs=(output,), allow_private=True))
        with pytest.raises(ConfigError, match=r"[gG]ive .* with -o") as raised:
            await join_crawl(Crawl(crawl), [], frontier)
    assert why in str(raised.value)


@pytest.fixture
def guarded(monkeypatch):
    """The address of a server that wants a password."""
    for name in list(os.environ):
        if name.startswith(CREDENTIALS):
            monkeypatch.delenv(name)
    server = Server("valkey", tcp=True).start()
    with server.client() as client:
        client.config_set("requirepass", "geheim")
    yield f"127.0.0.1:{server.port}"
    server.kill()
    server.remove()


async def test_a_sink_that_the_file_of_a_worker_lacks_is_missed(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl) as frontier:
        await frontier.admin.set_run_options(RunOptions(outputs=(), sinks=("to_api",)))
        with pytest.raises(ConfigError, match=r"@crawl\.sink to_api, which this worker's file does not define"):
            await join_crawl(Crawl(crawl), [], frontier)


CODE = """
crawl.fetching = FetchOptions(allow_private=False, obey_robots=True)

@crawl.handler
def page(page):
    yield {"url": page.url}
    yield page.follow(page.css("a"))
"""


def test_private_addresses_are_allowed_to_workers_if_they_are_to_the_run(begun, silkline, valkey, frontier):
    file = begun("--allow-private", code=CODE)
    answer = silkline("worker", file, "--redis", valkey.url)
    assert answer.code == 0
    assert "private addresses are allowed, because the crawl was started with --allow-private" in answer.err
    stats = frontier().admin.stats()
    assert (stats.done, stats.dead) == (21, 0)


def test_items_of_a_run_go_into_a_table_of_the_users_own(silkline, valkey, site, write, workplace):
    database = sqlite3.connect(workplace / "shop.db", isolation_level=None)
    database.execute("CREATE TABLE pages (path TEXT PRIMARY KEY, status INTEGER NOT NULL, note TEXT)")
    database.execute("INSERT INTO pages VALUES ('1', 0, 'mine')")
    file = write(site(chain(2)))
    out = "sqlite:///shop.db?table=pages&key=path"
    answer = silkline("run", file, "-o", out, "--redis", valkey.url)
    assert answer.code == 0, answer.err
    rows = [("", 200, None), ("1", 200, "mine"), ("2", 200, None)]
    assert database.execute("SELECT * FROM pages ORDER BY path").fetchall() == rows
    answer = silkline("run", file, "-o", out, "--fresh", "--yes", "--redis", valkey.url)
    assert answer.code == 0, answer.err
    assert database.execute("SELECT * FROM pages ORDER BY path").fetchall() == rows
    database.close()


@pytest.mark.parametrize("command", ["run", "start"])
def test_a_finished_crawl_keeps_its_output_and_no_new_one_is_created(
    command, silkline, site, write, valkey, workplace, frontier
):
    file, place = write(site(chain(1))), workplace / "items.jsonl"
    assert silkline("run", file, "-o", "items.jsonl", "--redis", valkey.url).code == 0
    again = silkline(command, file, "-o", "typo/x.jsonl", "--redis", valkey.url)
    assert again.code == 0, again.err
    assert f"nothing is left to crawl, so the output stays {place}" in again.err
    assert not (workplace / "typo").exists()
    assert [output.out for output in frontier(create=False).admin.run_options().outputs] == [str(place)]
    file = write(site(chain(2)))  # on another site, so there is more to do
    assert silkline("run", file, "-o", "more/x.jsonl", "--redis", valkey.url).code == 0
    assert len(lines_of(workplace / "more" / "x.jsonl")) == 3
