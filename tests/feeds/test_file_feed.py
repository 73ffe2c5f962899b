"""A file that feeds a crawl: once, from where it was left, by one process at a time."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from silkline import Frontier
from silkline.core.politeness import Budget
from silkline.errors import ConfigError
from silkline.worker.feeds import feeder, file_feed
from silkline.worker.feeds.feeder import Feeding
from silkline.worker.feeds.file_feed import FileFeed
from tests.feeds.conftest import entry

URLS = [f"https://h{number}.example/{number}" for number in range(200)]


@pytest.fixture
def any_server(valkey):
    """One kind: for the other ones, there are the tests of the script."""
    return valkey


def write(path, urls, *, pack=lambda data: data):
    path.write_bytes(pack("".join(f"{url}\n" for url in urls).encode()))
    return path


async def position(crawl, file):
    stored = await crawl.frontier.internal.feed_position(str(file))
    return json.loads(stored) if stored else {}


def make_parquet(path):
    pq.write_table(pa.table({"url": URLS}), path, row_group_size=30)


def make_csv(path):
    path.write_text("priority,url\n" + "".join(f",{url}\n" for url in URLS))


MAKE = {
    "x.txt": lambda path: write(path, URLS),
    "x.jsonl.gz": lambda path: write(path, [entry(url) for url in URLS], pack=gzip.compress),
    "x.csv": make_csv,
    "x.parquet": make_parquet,
}


@pytest.mark.parametrize("name", MAKE)
async def test_it_is_continued_where_it_was_left(fed, tmp_path, name, monkeypatch):
    monkeypatch.setattr(feeder, "BATCH", 20)
    file = tmp_path / name
    MAKE[name](file)
    crawl = await fed(capacity=50, shards=1)

    async def full():
        return (await crawl.frontier.admin.stats()).ready == 50

    await crawl.feed(file=file, until=full)
    stored = await position(crawl, file)
    assert 0 < stored["line"] <= 51
    assert "ended" not in stored
    found = await crawl.urls()

    async def drained():
        found.extend(await crawl.urls())
        return len(found) >= len(URLS)

    await crawl.feed(file=file, until=drained)
    await crawl.feed(file=file)
    assert found == URLS
    stats = await crawl.frontier.admin.stats()
    assert stats.accepted == len(URLS)
    assert (await position(crawl, file))["ended"]


async def test_what_is_appended_is_read_by_the_next_run_and_a_file_that_has_changed_again(fed, tmp_path, caplog):
    crawl, file = await fed(), write(tmp_path / "x.txt", URLS[:100])
    for urls in (URLS[:100], URLS[:150], URLS[:150]):
        write(file, urls)
        await crawl.feed(file=file)
        assert (await position(crawl, file))["line"] == len(urls)
        assert (await crawl.frontier.admin.stats()).accepted == len(urls)
    assert "has changed" not in caplog.text
    write(file, ["https://new.example/", *URLS[50:]])
    await crawl.feed(file=file)
    assert "x.txt has changed before line 150" in caplog.text
    stats = await crawl.frontier.admin.stats()
    assert stats.accepted == 201
    write(file, [])
    await crawl.feed(file=file)
    assert caplog.text.count("has changed") == 2


async def test_bad_lines_become_dead_letters_with_their_place(fed, tmp_path):
    crawl, file = await fed(), tmp_path / "x.csv"
    file.write_text(
        "url,priority,handler\nhttps://a.example/1,high,\n\nhttps://a.example/2,,unknown\nftp://a/,,\nhttps://a.example/3,5,\n"
    )
    await crawl.feed(file=file)
    assert await crawl.urls() == ["https://a.example/3"]
    letters = await crawl.frontier.admin.dead(limit=10)
    found = {letter.url: letter.reason for letter in letters}
    place = f"https://feed.invalid{file}?line="
    assert set(found) == {f"{place}2", f"{place}4", f"{place}5"}
    assert f'bad entry in {file}: its "priority" is wrong' in found[f"{place}2"]
    assert json.loads(next(letter.request.body for letter in letters if letter.url.endswith("4"))) == [
        "url", "https://a.example/2", "handler", "unknown",
    ]  # fmt: skip


async def test_a_damaged_file_is_read_up_to_the_damage_and_reported_once(fed, tmp_path):
    whole = gzip.compress("".join(f"https://a.example/{n * 7919}\n" for n in range(20_000)).encode())
    crawl, file = await fed(), tmp_path / "x.txt.gz"
    file.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        await crawl.feed(file=file)
        [letter] = await crawl.frontier.admin.dead(limit=10)
        assert "the rest of the file cannot be read: " in letter.reason
        assert "is a damaged gzip file" in letter.reason
    some = (await crawl.frontier.admin.stats()).ready
    assert some == (await position(crawl, file))["line"] > 5_000
    file.write_bytes(whole)
    await crawl.feed(file=file)
    assert (await crawl.frontier.admin.stats()).ready == 20_000


async def test_a_file_that_is_missing_is_reported_and_read_once_it_is_there(fed, tmp_path, monkeypatch):
    monkeypatch.setattr(feeder, "ERROR_PAUSE", 0.01)
    crawl, file = await fed(), tmp_path / "x.txt"

    async def told():
        return bool(crawl.feeding.trouble)

    await crawl.feed(file=file, until=told)
    assert f"the feed {file} cannot be read: No such file or directory" in crawl.feeding.trouble
    file.mkdir()
    await crawl.feed(file=file, until=told)
    assert "is not a regular file" in crawl.feeding.trouble
    file.rmdir()
    write(file, URLS)
    await crawl.feed(file=file)
    assert sorted(await crawl.urls()) == sorted(URLS)
    file.unlink()  # after it was read
    await crawl.feed(file=file, until=told)
    assert "No such file" in crawl.feeding.trouble


async def test_two_processes_read_it_in_turn(fed, tmp_path):
    crawl, file = await fed(), write(tmp_path / "x.txt", URLS)
    async with await Frontier.open(crawl.frontier.url, crawl=crawl.frontier.crawl) as other:
        one, two = FileFeed(str(file), crawl.frontier), FileFeed(str(file), other)
        first = await one.take(50)
        assert await two.take(50) == []
        await one.done(first[:30])
        assert (await position(crawl, file))["stored"] == 30
        assert await two.take(50) == []
        await one.close()
        more = await two.take(50)
        assert [found.item for found in more] == URLS[30:50]
        await one.done(first)  # too late: nothing is stored for the one that has closed it
        assert (await position(crawl, file))["stored"] == 30
        await two.done(more)
        rest = await two.take(1000)
        assert [found.item for found in rest] == URLS[50:]
        assert not await two.ended()
        await two.done(rest[::-1])
        assert await two.ended()
        assert await one.take(50) == []
        assert await one.ended()


async def test_a_reader_that_was_frozen_does_not_set_the_position_back(fed, tmp_path):
    crawl, file = await fed(), write(tmp_path / "x.txt", URLS)
    one, two = FileFeed(str(file), crawl.frontier), FileFeed(str(file), crawl.frontier)
    first = await one.take(50)
    token = one._hold.token
    await one._hold.release()  # as if its time were over
    await two.done(await two.take(120))
    stored = await crawl.frontier.internal.feed_position(str(file))
    late = await crawl.frontier.internal.feed_position(str(file), token, b"late")
    assert late == stored != b""
    await one.done(first)
    assert await crawl.frontier.internal.feed_position(str(file)) == stored
    await two.close()
    await one._drop_file()


async def test_entries_that_could_not_be_stored_are_taken_again(fed, tmp_path):
    crawl, file = await fed(), write(tmp_path / "x.txt", URLS)
    feed = FileFeed(str(file), crawl.frontier)
    first, second = await feed.take(50), await feed.take(50)
    await feed.done(first)
    await feed.abandon()
    await feed.done(second)  # of the other lane
    assert [found.item for found in await feed.take(500)] == URLS[50:]
    assert (await position(crawl, file))["line"] == 50
    await feed.close()


async def test_a_worker_without_the_file_waits_for_the_one_that_has_it(fed, tmp_path, monkeypatch):
    crawl, file = await fed(), write(tmp_path / "x.txt", URLS)
    here = FileFeed(str(file), crawl.frontier)
    await here.done(await here.take(50))
    moved = file.rename(tmp_path / "moved")
    monkeypatch.setattr(file_feed.socket, "gethostname", lambda: "elsewhere")
    there = FileFeed(str(file), crawl.frontier)
    assert await there.take(50) == []
    assert not await there.ended()
    moved.rename(file)
    await here.done(await here.take(500))
    file.unlink()
    assert await there.take(50) == []
    assert await there.ended()


async def test_the_end_is_not_stored_while_the_last_entries_are_read(fed, tmp_path, monkeypatch):
    crawl, file = await fed(), write(tmp_path / "x.txt", URLS)
    feed = FileFeed(str(file), crawl.frontier)
    first = await feed.take(150)
    at_the_end, go_on = threading.Event(), threading.Event()
    read = feed._file.read

    def slowly(most):
        entries = read(most)
        at_the_end.set()
        assert go_on.wait(50)
        return entries

    monkeypatch.setattr(feed._file, "read", slowly)
    taking = asyncio.create_task(feed.take(150))
    await asyncio.to_thread(at_the_end.wait, 50)
    await feed.done(first)
    assert (await position(crawl, file))["line"] == 150
    go_on.set()
    rest = await taking
    assert not await feed.ended()
    await feed.done(rest)
    assert await feed.ended()


async def test_a_crawl_that_is_over_leaves_the_rest_in_the_file(fed, tmp_path):
    for end in ("cancelled", "spent"):
        file = write(tmp_path / f"{end}.txt", URLS)
        crawl = await fed(budget=Budget(pages=3) if end == "spent" else Budget())
        if end == "cancelled":
            await crawl.frontier.admin.cancel()
        else:
            await crawl.frontier.enqueue(URLS[:3])
            assert len(await crawl.claimed()) == 3
        feeding = Feeding(crawl.frontier, [FileFeed(str(file), crawl.frontier)], ["page"])
        running = asyncio.create_task(feeding.run())
        while not feeding.room.is_over:  # noqa: ASYNC110 - it is read now and then
            await asyncio.sleep(0.01)
        assert await feeding.finished()
        feeding.stop()
        await running
        assert await position(crawl, file) == {}


def test_a_device_is_no_feed():
    with pytest.raises(ConfigError, match="is not a regular file"):
        file_feed.check_file("/dev/null")


async def test_closing_and_reading_do_not_collide(fed, tmp_path):
    crawl, file = await fed(), write(tmp_path / "x.txt", URLS * 300)
    feed = FileFeed(str(file), crawl.frontier)
    await feed.take(1)
    taking = asyncio.create_task(feed.take(50_000))
    await asyncio.sleep(0)
    await feed.abandon()
    assert await taking == []
    assert len(await feed.take(10)) == 10
    await feed.close()
