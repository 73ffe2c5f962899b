"""Links that wait on disk: killed processes, shared files, damaged files; nothing is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import Counter

import pytest

from silkline import Admission, Politeness, Request
from silkline.errors import ConfigError, SilklineError, StoreUnavailable
from silkline.frontier.overflow import LateOverflow, SqliteOverflow
from silkline.frontier.verbs.enqueue import Admissions, _report_overflow, spill
from tests.chaos.subject import crawl_all

AT_ONCE = Politeness(delay=0, concurrency=1000)
PAGE = "https://page.example/"
LINKS = [f"https://link{number}.example/{number}" for number in range(9)]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "overflow"


@pytest.fixture
def impatient(monkeypatch):
    """What a dead process had taken is up for grabs at once, and everybody looks all the time."""
    monkeypatch.setattr("silkline.frontier.overflow.TAKEN_SECONDS", -1)
    monkeypatch.setattr("silkline.frontier.frontier.RECALL_EVERY", 0.0)
    monkeypatch.setattr("silkline.frontier.sync.RECALL_EVERY", 0.0)


@pytest.mark.usefixtures("impatient")
async def test_links_spill_and_return_by_themselves(subject, file):
    frontier = await subject(politeness=AT_ONCE, capacity=3, overflow=file)
    await frontier.enqueue(PAGE)
    [page] = await frontier.claim(1)
    outcome = await frontier.complete(page, LINKS)
    assert outcome.links == [Admission.ADDED] * 3 + [Admission.FULL] * 6
    stats = await frontier.admin.stats()
    assert (stats.overflow, stats.ready, stats.done) == (6, 3, 1)
    assert await frontier.enqueue("https://new.example/") == [Admission.FULL]
    for lease in await frontier.claim(3):
        await frontier.complete(lease)
    assert not await frontier.finished()
    assert sorted(await crawl_all(frontier)) == LINKS[3:]
    stats = await frontier.admin.stats()
    assert stats.conserved
    assert (stats.overflow, stats.done) == (0, 10)


def settle(frontier, links=()):
    for lease in frontier.claim(10, wait=0.1):
        frontier.complete(lease, links if lease.url == PAGE else ())
        yield lease.url


def crawl_to_the_end(frontier, links, patience=100):
    done, deadline = Counter(), time.monotonic() + patience
    while not frontier.finished():
        assert time.monotonic() < deadline, frontier.admin.stats()
        assert frontier.admin.stats().conserved
        done.update(settle(frontier, links))
    return done


@pytest.mark.usefixtures("impatient")
def test_a_worker_may_be_killed_at_any_step_of_spilling(here, client, crawl, tmp_path):
    """Links on the disk and the page still leased, or both done: the links come once, the page at most once more."""
    for step in range(60):
        file = tmp_path / f"overflow-{step}"
        frontier = here(crawl=f"{crawl}-{step}", politeness=AT_ONCE, capacity=2, overflow=file)
        victim = client(crawl=frontier.crawl, overflow=str(file), lease=0.2)
        victim.do("enqueue", urls=[PAGE])
        [[token, _, _]] = victim.do("claim")
        victim.do("die", step=step)
        survived = victim.do("settle", tokens=[token], links=LINKS) is not None
        victim.end()
        done = crawl_to_the_end(frontier, LINKS)
        assert {url: done[url] for url in LINKS} == dict.fromkeys(LINKS, 1)
        assert frontier.admin.stats().done == frontier.admin.stats().accepted == 10
        if survived:
            break
    assert survived
    assert step == 10  # two for each: links, disk, tally, note, page


@pytest.mark.usefixtures("impatient")
def test_a_worker_may_be_killed_at_any_step_of_recalling(here, client, crawl, tmp_path):
    """Also links that pass by the filter come in once: their batch is known by its name."""
    links = [f"!{url}" for url in LINKS[:4]] + LINKS[4:]
    for step in range(60):
        file = tmp_path / f"overflow-{step}"
        frontier = here(crawl=f"{crawl}-{step}", politeness=AT_ONCE, shards=2, overflow=file)
        requests = [Request(url.lstrip("!"), depth=1, dont_filter=url.startswith("!")) for url in links]
        frontier._session.run(spill(frontier.layout, frontier._overflow, requests, Admissions()))
        victim = client(crawl=frontier.crawl, overflow=str(file), lease=0.2)
        victim.do("die", step=step)
        survived = victim.do("claim", n=5) is not None
        victim.end()
        done = crawl_to_the_end(frontier, ())
        assert {url: done[url] for url in LINKS} == dict.fromkeys(LINKS, 1)
        assert frontier.admin.stats().accepted == 9
        if survived:
            break
    assert survived
    assert step > 12


@pytest.mark.usefixtures("impatient")
def test_two_processes_share_a_file(here, client, file):
    frontier = here(politeness=AT_ONCE, capacity=5, overflow=file)
    other = client(overflow=str(file))
    frontier.enqueue([f"https://p{number}.example/" for number in range(4)])
    links = [f"https://l{number}.example/{number}" for number in range(60)]
    done, deadline = Counter(), time.monotonic() + 100
    while not frontier.finished():
        assert time.monotonic() < deadline, frontier.admin.stats()
        assert frontier.admin.stats().conserved
        for token, url, _ in other.do("claim", n=2):
            found = [links.pop() for _ in range(min(8, len(links)))]
            other.do("settle", tokens=[token], links=found)
            done[url] += 1
        for lease in frontier.claim(2):
            frontier.complete(lease, [links.pop() for _ in range(min(8, len(links)))])
            done[lease.url] += 1
    assert len(done) == 64
    assert set(done.values()) == {1}
    assert frontier.admin.stats().overflow == 0


def test_tallies_that_overtake_each_other_do_not_hide_what_waits(here, file):
    """Of two processes one counts, the other puts, counts and tells, and only then the first tells: too late."""
    frontier = here(politeness=AT_ONCE, overflow=file)
    ours, theirs = frontier._overflow, SqliteOverflow(file)
    slow = theirs.tally
    ready, go = threading.Event(), threading.Event()

    def counted_and_delayed(crawl):
        tally = slow(crawl)
        ready.set()
        go.wait(30)
        return tally

    theirs.tally = counted_and_delayed
    late = here(overflow=theirs)
    thread = threading.Thread(target=late.claim)
    thread.start()
    ready.wait(30)
    ours.put(frontier.layout.overflow_name, [Request(LINKS[0])])
    frontier.claim()  # takes it, and gets it
    ours.put(frontier.layout.overflow_name, [Request(LINKS[1])])
    frontier._session.run(_report_overflow(frontier.layout, ours))
    assert frontier.admin.stats().overflow == 1
    go.set()
    thread.join()
    assert frontier.admin.stats().overflow == 1


def test_two_crawls_of_one_name_share_a_file_and_no_link(here, own_server, file):
    """On two servers, as when the same crawl is tried out on one and run on the other."""
    other = own_server()
    mine, theirs = (
        here(url=url, politeness=AT_ONCE, capacity=1, overflow=file)
        for url in (here(capacity=1, politeness=AT_ONCE).url, other.url)
    )
    for number, frontier in enumerate((mine, theirs)):
        frontier.enqueue(f"https://page{number}.example/")
        (page,) = frontier.claim(1)
        frontier.complete(page, [f"https://page{number}.example/{n}" for n in range(3)])
    for number, frontier in enumerate((mine, theirs)):
        assert frontier.admin.stats().overflow == 2
        urls = []
        while not frontier.finished():
            for lease in frontier.claim(1, wait=2):
                urls.append(lease.url)
                frontier.complete(lease)
        assert sorted(urls) == [f"https://page{number}.example/{n}" for n in range(3)]
    mine.close()
    theirs.close()


async def test_a_file_that_is_made_late_is_found_by_those_who_came_before(subject, file):
    """Until a link has to wait there is no file at all."""
    first, second = [await subject(politeness=AT_ONCE, capacity=1, overflow=LateOverflow(file)) for _ in range(2)]
    await first.enqueue(PAGE)
    [page] = await first.claim(1)
    assert await second.claim(1) == []  # looks for what may have returned
    assert not file.exists()
    await first.complete(page, LINKS)
    assert file.exists()
    assert sorted(await crawl_all(second)) == LINKS
    assert await first.finished()


@pytest.mark.usefixtures("impatient")
async def test_a_late_file_that_cannot_be_made_leaves_the_page_leased(subject, tmp_path):
    frontier = await subject(politeness=AT_ONCE, capacity=1, overflow=LateOverflow(tmp_path / "no" / "such"))
    await frontier.enqueue(PAGE)
    [page] = await frontier.claim(1)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        await frontier.complete(page, LINKS)
    (tmp_path / "no").mkdir()
    await frontier.complete(page, LINKS)
    assert (await frontier.admin.stats()).overflow == 8


async def test_a_note_whose_maker_died_is_put_right(subject, here, file):
    frontier = await subject(politeness=AT_ONCE, overflow=file)
    store = SqliteOverflow(file)
    store.put(here().layout.overflow_name, [Request(PAGE)])
    [lease] = await frontier.claim(1, wait=60)
    await frontier.complete(lease)
    async with asyncio.timeout(100):
        while not await frontier.finished():
            await frontier.claim(1, wait=0.2)
    store.close()


@pytest.mark.parametrize("content", [b"this is no database", b"SQLite format 3\0" + b"\xff" * 4096])
async def test_a_file_that_is_no_overflow(subject, file, content):
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=str(file)):
        await subject(overflow=file)


async def test_a_place_where_nothing_can_be_written(subject):
    for place in ("/proc/overflow", "/no/such/folder/overflow", "/"):
        with pytest.raises(ConfigError, match=f"overflow file {place} cannot be used"):
            await subject(overflow=place)


@pytest.mark.usefixtures("impatient")
async def test_a_file_that_is_damaged_meanwhile(subject, file):
    """The page stays leased: it is not completed while its links are nowhere."""
    frontier = await subject(politeness=AT_ONCE, capacity=1, overflow=file)
    await frontier.enqueue(PAGE)
    [page] = await frontier.claim(1)
    with sqlite3.connect(file) as database:
        database.execute("DROP TABLE waiting")
    database.close()
    with pytest.raises(StoreUnavailable, match=str(file)):
        await frontier.complete(page, LINKS)
    stats = await frontier.admin.stats()
    assert (stats.leased, stats.done) == (1, 0)


@pytest.mark.usefixtures("impatient")
async def test_a_row_that_cannot_be_read_is_kept(subject, here, file):
    frontier = await subject(politeness=AT_ONCE, overflow=file)
    shelf = here().layout.overflow_name
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO waiting (crawl, request) VALUES (?, ?)", (shelf, b"\xc1"))
    database.close()
    with pytest.raises(SilklineError, match="row 1"):
        await frontier.claim(1)
    store = SqliteOverflow(file)
    assert store.count(shelf) == 1
    store.close()
