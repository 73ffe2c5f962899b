"""No page asks the server for anything that grows with the crawl."""

from __future__ import annotations

import asyncio
import threading

import pytest
import redis

from silkline import Crawl, Frontier, Politeness, Request, SyncFrontier
from silkline.cli.main import run as run_command
from silkline.core.proxy_health import ProxyReport
from silkline.core.verdict import Bury
from silkline.dashboard import app
from silkline.runtime.counters import Counters
from silkline.worker.process.run import conclude
from silkline.worker.process.summary import MOST_REASONS, RunInfo
from tests.dashboard.serving import Serving, Visitor, patient
from tests.servers import Server

AT_MOST = 1000
WHOLE = {"KEYS", "SMEMBERS", "HGETALL", "HKEYS", "HVALS", "SORT", "SCAN", "SUNION", "DUMP", "DEBUG"}
FEW = ("silkline:crawls", ":ledger", ":crawl")
"""Keys that hold a handful of things, whatever the size of the crawl."""
PAGES = (
    "/", "/?range=day", "/crawls", "/crawls/large", "/hosts?crawl=large", "/hosts?crawl=large&q=h77.example",
    "/host?crawl=large&host=h5.example", "/requests", "/requests?url=https://h5.example/1", "/dead?crawl=large",
    "/dead?crawl=large&status=404", "/dead?crawl=large&host=h5.example", "/dead/revive?crawl=large&host=h5.example&status=404",
    "/requests?url=https://nowhere.example/", "/requests?crawl=large&state=ready", "/requests?crawl=large&state=delayed",
    "/requests?crawl=large", "/requests?crawl=large&state=ready&host=deep.example", "/requests/export?crawl=large&state=ready",
    "/dead/export?crawl=large", "/dead/export?crawl=large&host=h5.example",
    "/requests/export?crawl=large&state=leased&host=h5.example", "/workers", "/redis", "/audit",
    "/tasks", "/tasks?crawl=large", "/proxies", "/proxies?crawl=large",
)  # fmt: skip


@pytest.fixture(scope="module")
def large():
    """More of everything than one look may see."""
    server = Server("valkey").start()
    with SyncFrontier.open(
        server.url, crawl="large", politeness=Politeness(delay=0, concurrency=9), shards=2
    ) as frontier:
        frontier.enqueue([f"https://h{number % 2500}.example/{number}" for number in range(10_000)])
        for _ in range(5):
            leases = frontier.claim(500)
            frontier.settle([(lease, Bury(f"reason {place % 40}", 404)) for place, lease in enumerate(leases)])
        frontier.enqueue([f"https://deep.example/{number}" for number in range(5000)])
        frontier.claim(300, lease=86_400)
        failing = [ProxyReport(f"http://p{number}.example:80", "failed", "refused") for number in range(1800)]
        frontier.internal.share_proxies("w", 0, (2.0, 30.0), failing)
        for host in ("resize", "intranet"):
            frontier.enqueue([Request(f"https://{host}/{number}", handler="resize") for number in range(3000)])
    yield server
    server.remove()


def asked_of(server, visit):
    """Every command that the server ran meanwhile, those of scripts too."""
    watcher = redis.Redis(unix_socket_path=str(server.socket))
    commands, ready = [], threading.Event()

    def watch():
        with watcher.monitor() as monitor:
            ready.set()
            for entry in monitor.listen():
                commands.append(entry["command"].split(" "))
                if entry["command"] == "ECHO over":
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    ready.wait(10)
    visit()
    with redis.Redis(unix_socket_path=str(server.socket)) as teller:
        teller.execute_command("ECHO", "over")
    thread.join(100)
    watcher.close()
    return commands


def objection(command):
    name, *words = command
    name = name.upper()
    if name in WHOLE and not words[0].endswith(FEW):
        return f"{name} {words[0]}"
    if name in ("LRANGE", "ZRANGE", "ZREVRANGE", "LTRIM"):
        first, last = int(words[1]), int(words[2])
        if last < 0 or last - first >= AT_MOST + 1:
            return " ".join(command[:4])
    if name in ("ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZRANGEBYLEX") and "LIMIT" not in [word.upper() for word in words]:
        return " ".join(command[:4])
    if name in ("HSCAN", "SSCAN", "ZSCAN") and int(words[-1]) > AT_MOST:
        return " ".join(command)
    return None


def test_the_judge_sees_what_it_should():
    for bad in ("KEYS *", "HGETALL x:hosts", "LRANGE q 0 -1", "ZRANGE z 0 99999", "ZRANGEBYSCORE z -inf +inf"):
        assert objection(bad.split(" ")), bad
    for good in ("SMEMBERS silkline:crawls", "HGETALL silkline:{a:0}:ledger", "LRANGE q 0 999", "HMGET h a b"):
        assert objection(good.split(" ")) is None, good


def test_no_page_reads_all_there_is(large):
    with Serving(patient(app(large.url))) as serving:
        visitor = Visitor(serving.port)

        def visit():
            for path in PAGES:
                assert visitor.get(path).status == 200, path

        commands = asked_of(large, visit)
    assert len(commands) > 100
    assert sorted({text for command in commands if (text := objection(command))}) == []


def test_workers_are_listed_with_their_orders_in_one_call_for_any_number(large):
    def calls(path):
        commands = asked_of(large, lambda: visitor.get(path))
        return sum(words[0].upper() in ("EVALSHA", "EVAL") for words in commands)

    with (
        SyncFrontier.open(large.url, crawl="large") as frontier,
        Serving(patient(app(large.url))) as serving,
    ):
        visitor = Visitor(serving.port)
        frontier.internal.join("w-0")
        visitor.get("/workers")
        few = calls("/workers")
        for number in range(1, 20):
            frontier.internal.join(f"w-{number}")
        frontier.admin.order("w-7", "quiet")
        assert calls("/workers") == few
        assert {worker.name: worker.order for worker in frontier.admin.workers()}["w-7"] == "quiet"
        assert len(asked_of(large, frontier.admin.workers)) < 3 + 3 * 21  # one script, and what it reads


def test_the_status_from_which_notices_are_made_costs_the_same_for_any_number_of_hosts(large):
    with SyncFrontier.open(large.url, crawl="large") as frontier:
        commands = asked_of(large, frontier.admin.status)
    assert [text for command in commands if (text := objection(command))] == []
    assert len(commands) < 80, "two shards, and what a script reads of each; there are 2,500 hosts"


def letters_and_leases_read(commands):
    return sum(len(words) - 2 for words in commands if words[0] == "HMGET" and words[1].endswith((":dead", ":leased")))


LOOKS = {
    "dead": lambda frontier, host: frontier.admin.dead(host=host, status=500),
    "count": lambda frontier, host: frontier.admin.count_dead(host=host),
    "explain": lambda frontier, host: frontier.admin.explain(f"https://{host}/none"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_a_host_reads_no_letters_and_leases_of_others(large, look):
    with SyncFrontier.open(large.url, crawl="large") as frontier:
        [letter] = frontier.admin.dead(limit=1)
        [(_, letters)] = frontier.admin.dead_groups("host", name=letter.host)
        [host] = frontier.admin.hosts(letter.host)
        commands = asked_of(large, lambda: LOOKS[look](frontier, letter.host))
    assert host.leased == 0, "else all leases are looked at"
    assert letters_and_leases_read(commands) == letters < 10


def test_to_explain_a_page_of_an_unknown_host_nothing_is_walked_through(large):
    with SyncFrontier.open(large.url, crawl="large") as frontier:
        commands = asked_of(large, lambda: frontier.admin.explain("https://nowhere.example/"))
    assert letters_and_leases_read(commands) == 0
    read = [words[1] for words in commands if words[0] in ("ZRANGE", "ZREVRANGE", "HSCAN")]
    assert [key for key in read if not key.endswith(":delayed")] == []


def test_the_summary_of_a_run_reads_the_newest_letters_once(large):
    """The crawl has 2,500 dead letters of 40 reasons, and the summary an example of each of 20 reasons."""

    async def conclude_run():
        async with await Frontier.open(large.url, crawl="large") as frontier:
            summary = await conclude(Crawl("large", ()), frontier, Counters(), RunInfo(), [])
        assert len(summary.dead_letters) == MOST_REASONS
        assert all(reason.example for reason in summary.dead_letters)

    commands = asked_of(large, lambda: asyncio.run(conclude_run()))
    assert [text for command in commands if (text := objection(command))] == []
    assert 0 < letters_and_leases_read(commands) <= 2000


def test_workers_of_all_crawls_are_listed_in_one_call_for_each(large):
    def scripts():
        commands = asked_of(large, lambda: run_command(["workers", "ls", "--redis", large.url, "--json"]))
        return sum(words[0].upper() in ("EVALSHA", "EVAL") for words in commands)

    for number in range(3):
        with SyncFrontier.open(large.url, crawl=f"small-{number}") as frontier:
            frontier.internal.join("w-1")
    few = scripts()
    for number in range(3):
        with SyncFrontier.open(large.url, crawl=f"small-{number}") as frontier:
            for worker in range(20):
                frontier.internal.join(f"w-{worker}")
    assert scripts() == few
