"""A worker may be killed between any two steps of feeding: nothing is lost."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.chaos.processes import forker
from tests.feeds.conftest import FILL, entry

VICTIM = Path(__file__).with_name("victim.py")
HOLD = 0.2
KIND = {"valkey": "list", "redis-7.0": "set", "redis-6.2": "zset", "cluster": "stream"}
PLAIN = [f"https://h{number}.example/{number}" for number in range(300)]
RICH = [entry(f"https://h{number}.example/rich", priority=number, meta={"n": number}) for number in range(5)]
LONG = json.dumps({"url": "https://a.example/", "meta": "x" * 60_000})
BAD = ["{", "no URL", entry("https://h1.example/", handler="unknown"), LONG]


def die(server, crawl, feed, step, **more):
    """Feed in another process, which is killed at that step. Returns whether it survived: there was no such step."""
    settings = {"url": server.url, "crawl": crawl.frontier.crawl, "feed": feed, "hold": HOLD, "step": step, **more}
    process = forker().run(VICTIM, json.dumps(settings), cwd=VICTIM.parent)
    assert process.returncode in (0, -9)
    return process.stdout == b"survived\n"


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
async def test_a_worker_may_be_killed_at_any_step(fed, every):
    for step in range(list(KIND).index(fed.server.kind) % every, 60, every):
        crawl = await fed(shards=1 if step % 2 else 2)
        FILL[KIND[fed.server.kind]](crawl.client, crawl.key, [*PLAIN, *RICH, *BAD])
        survived = die(fed.server, crawl, f"redis:{crawl.key}", step)
        await crawl.feed(hold=HOLD)
        leases = await crawl.claimed()
        expected = [*PLAIN, *(json.loads(one)["url"] for one in RICH)]
        assert sorted(lease.url for lease in leases) == sorted(expected), step
        bodies = [letter.request.body for letter in await crawl.frontier.admin.dead(limit=100)]
        assert {body[:100] for body in bodies} == {bad.encode()[:100] for bad in BAD}, step
        assert len(bodies) <= 2 * len(BAD)  # once more if it was killed before they were removed from the feed
        assert (await crawl.frontier.admin.stats()).conserved
        if survived:
            assert step > 8
            return
    raise AssertionError("it never survived")


@pytest.mark.parametrize("any_server", ["valkey"], indirect=True)
async def test_a_reader_of_a_file_may_be_killed_at_any_step(fed, tmp_path):
    file = tmp_path / "urls.txt.gz"
    file.write_bytes(gzip.compress("\n".join([*PLAIN[:40], *BAD, *PLAIN[40:80], *RICH, ""]).encode()))
    for step in range(0, 60, 2):  # what is after one command is before the next
        crawl = await fed()
        survived = die(fed.server, crawl, str(file), step, batch=48)
        await crawl.feed(hold=HOLD, file=file)
        urls = [lease.url for lease in await crawl.claimed()]
        assert sorted(urls) == sorted([*PLAIN[:80], *(json.loads(one)["url"] for one in RICH)]), step
        letters = await crawl.frontier.admin.dead(limit=100)
        assert {letter.url.partition("?")[2] for letter in letters} == {f"line={41 + at}" for at in range(len(BAD))}
        assert len(letters) <= 2 * len(BAD)
        assert (await crawl.frontier.admin.stats()).conserved
        if survived:
            assert step > 12
            return
    raise AssertionError("it never survived")
