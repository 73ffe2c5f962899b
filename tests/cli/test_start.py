"""``silkline start`` creates a crawl for workers that run elsewhere, and these wait for it."""

from __future__ import annotations

import signal
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest
from msgspec.structs import replace

from silkline import SyncFrontier
from silkline.cli.run import waiting
from silkline.cli.run.waiting import Awaited, wait_for_crawl
from silkline.frontier.admin_verbs.audit import A_WORKER
from silkline.worker.process.outputs import machine
from tests.cli.sites import chain, lines_of, wait_until
from tests.servers import free_port


@pytest.fixture
def start(silkline, valkey):
    def start_(*arguments):
        return silkline("start", *arguments, "--redis", valkey.url)

    return start_


def test_it_creates_the_crawl_and_leaves_and_a_second_start_adds_nothing(  # noqa: PLR0917 - fixtures
    start, site, write, crawl, valkey, silkline, workplace, frontier
):
    here = site(chain(3))
    file = write(here)
    first = start(file, "-o", "items.jsonl")
    assert first.code == 0, first.err
    assert first.out == (
        f"{crawl} is started: 1 start URL enqueued\nTo work on it: silkline worker {file} --redis {valkey.url}\n"
    )
    assert not here.visits, "nothing is fetched"
    again = start(file, "--json")
    assert again.json == {
        "crawl": crawl, "created": False, "added": 0, "finished": False, "paused": None, "ready": 1, "delayed": 0, "leased": 0, "done": 0, "dead": 0,
    }  # fmt: skip
    options = frontier(create=False).admin.run_options()
    assert [(one.out, one.machine) for one in options.outputs] == [(str(workplace / "items.jsonl"), machine())]
    assert options.allow_private
    own = frontier(create=False).layout.settings.politeness
    frontier(create=False).admin.set_politeness(replace(own, concurrency=7))
    worker = silkline("worker", file, "--redis", valkey.url)
    assert worker.code == 0
    assert (
        f"the file of this worker has delay {own.delay:g} s, concurrency {own.concurrency}, but the crawl" in worker.err
    )
    assert "concurrency 7, which applies to all workers. To change it: silkline crawl set" in worker.err
    assert len(lines_of(workplace / "items.jsonl")) == 4
    server = f"--redis {valkey.url}"
    done = start(file, "-o", "a b.jsonl", "--allow-private")
    assert "enqueued" not in done.out
    start_over = f"To start over: silkline crawl rm {crawl} {server}, then silkline start {file} -o 'a b.jsonl' --allow-private {server}"
    assert done.out == f"{crawl} is finished: 4 done. {start_over}\n"
    assert start(file, "--json").json["finished"]
    fresh = start(file, "-o", "a b.jsonl", "--allow-private", "--fresh")
    assert (fresh.code, start_over in " ".join(fresh.err.split())) == (2, True)


def test_a_crawl_that_paused_itself_stays_paused(start, site, write, crawl, frontier, valkey):
    file = write(site(chain(3)))
    assert start(file).code == 0
    books = frontier(create=False)
    books.admin.pause()
    books.internal.append_audit(f"{A_WORKER}the last 50 pages of handler product all failed", "pause")
    again = start(file)
    assert (again.code, books.admin.stats().state) == (0, "paused")
    why = "because the last 50 pages of handler product all failed"
    assert (
        f"{crawl} is still paused, {why}; to continue: silkline crawl resume {crawl} --redis {valkey.url}" in again.out
    )
    assert start(file, "--json").json["paused"] == "the last 50 pages of handler product all failed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "-"], "which only `silkline run` can do"),
        (["-o", "items.xml"], "unknown output"),
        (["--max-pages", "0"], "--max-pages"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_stored(start, site, write, crawl, operate, arguments, words):
    answer = start(write(site({})), *arguments)
    assert (answer.code, words in answer.err) == (2, True)
    assert operate("status", crawl).code == 2


def test_a_worker_that_is_there_first_waits_for_the_crawl_and_stores_where_the_start_said(
    start, running, site, write, crawl, valkey, workplace
):
    file, port = write(site(chain(3))), free_port()
    worker = running("worker", file, "--forever", "--metrics", port, "--redis", valkey.url)
    worker.wait_for(
        f"the crawl '{crawl}' does not exist yet on {valkey.url}; waiting for it. To start it: silkline start {file}"
    )
    wait_until(lambda: status(port, "/healthz") == 200)
    assert status(port, "/readyz") == 503
    assert start(file, "-o", "items.jsonl").code == 0
    wait_until(lambda: (workplace / "items.jsonl").exists() and len(lines_of(workplace / "items.jsonl")) == 4)
    wait_until(lambda: status(port, "/readyz") == 200)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.end() == 0
    assert "no -o" not in worker.err


def status(port, path):
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status
    except HTTPError as error:
        with error:
            return error.code
    except OSError:
        return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_can_be_stopped_while_it_waits(running, site, write, valkey, number):
    worker = running("worker", write(site({})), "--forever", "--redis", valkey.url)
    worker.wait_for("waiting for it")
    worker.process.send_signal(number)
    assert worker.end() == 0


def test_autoscale_waits_too_and_recommends_no_workers_meanwhile(running, start, site, write, crawl, valkey):
    port = free_port()
    server = running("autoscale", crawl, "--serve", port, "--redis", valkey.url)
    server.wait_for(f"the crawl '{crawl}' does not exist yet")
    wait_until(lambda: status(port, "/healthz") == 200)
    assert advice(port)["workers"] == 0
    assert start(write(site({}))).code == 0
    server.wait_for("serving /autoscale")
    assert advice(port)["workers"] == 1
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0


def advice(port):
    with urlopen(f"http://127.0.0.1:{port}/autoscale", timeout=10) as answer:
        return msgspec.json.decode(answer.read())


async def test_a_crawl_that_enqueue_created_is_not_waited_for_forever(valkey, crawl, monkeypatch):
    """It has no stored options; only while a start may be about to store them are they waited for."""
    monkeypatch.setattr(waiting, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(waiting, "GRACE", 0.05)
    looks = []

    async def created_at_the_second_look(awaited, look=waiting._has_options):
        looks.append(await look(awaited))
        if len(looks) == 1:
            SyncFrontier.open(valkey.url, crawl=crawl).close()
        return looks[-1]

    monkeypatch.setattr(waiting, "_has_options", created_at_the_second_look)
    assert await wait_for_crawl(Awaited(crawl, valkey.url, "silkline start"))
    assert looks[0] is None
    assert set(looks[1:]) == {False}
    assert len(looks) > 2


def test_the_hint_can_be_pasted_and_has_no_password(silkline, site, write, own_server):
    server = own_server(tcp=True)
    login = f"redis://:any@127.0.0.1:{server.port}"  # the default user has no password, so it takes any
    file = write(site(chain(3)))
    assert silkline("start", file, SILKLINE_REDIS=login).out.endswith(f"\nTo work on it: silkline worker {file}\n")
    given = silkline("start", file, "--redis", login)
    assert given.out.endswith(f"\nTo work on it: silkline worker {file} --redis ADDRESS\n")
