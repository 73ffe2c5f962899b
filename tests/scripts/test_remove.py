import pytest

from silkline import Admission, Politeness, Request, SyncFrontier
from silkline.errors import UnknownCrawl
from silkline.frontier.crawl_server import crawl_names
from silkline.frontier.verbs.history import Counts
from silkline.frontier.verbs.hosts import StatusCounts
from silkline.frontier.verbs.lifecycle import remove_command, set_crawl_field


def keys_of(server, crawl):
    """What is left of a crawl, without the replies that expire by themselves."""
    with server.client() as client:
        found = [key.decode() for key in client.scan_iter(f"silkline:{{{crawl}[:}}]*", count=1000)]
    return [key for key in found if ":once:" not in key]


def urls(count, hosts=100):
    return [f"https://h{i % hosts}.example/{i}" for i in range(count)]


@pytest.fixture
def busy_crawl(any_server, crawl, open_sync):
    """Opens a crawl that has something in every place."""

    def fill(**settings):
        frontier = open_sync(url=any_server.url, politeness=Politeness(delay=60, concurrency=2), **settings)
        frontier.enqueue(urls(5_000, hosts=1_200))
        frontier.enqueue(
            [Request("https://h3.example/first", priority=7), Request("https://later.example/", not_before=9e9)]
        )
        held = frontier.claim(30)
        frontier.bury(held[0], "broken", 500)
        frontier.retry(held[1], after=60)
        frontier.complete(held[2], links=["https://found.example/"])
        frontier.admin.set_host("paused.example", paused=True)
        frontier.enqueue("https://paused.example/")
        frontier.keep_robots("https://found.example/", b"User-agent: *", crawl_delay=3)
        frontier.robots("https://h1.example/")
        frontier.internal.add_history(Counts(pages=1))
        frontier.internal.add_answers({"found.example": StatusCounts(status_2xx=1, last=200)})
        frontier.admin.pause()
        return frontier

    return fill


@pytest.mark.parametrize("seen", ["exact", "compact", "bloom:0.001,500"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_removed_crawl_leaves_nothing(busy_crawl, any_server, crawl, seen, shards):
    frontier = busy_crawl(seen=seen, shards=shards)
    assert len(keys_of(any_server, crawl)) > 100
    frontier.admin.remove()
    assert keys_of(any_server, crawl) == []
    assert crawl not in crawl_names(any_server.url)


def test_a_large_shard_is_removed_in_bounded_steps(busy_crawl, any_server, crawl):
    frontier = busy_crawl(seen="compact", shards=1)
    [shard] = frontier.layout.shards
    steps = 1
    while frontier._connection.call(remove_command(shard)):
        assert frontier.admin.stats().state == "cancelled"
        steps += 1
    assert steps >= (1_200 + 4_096) // 500
    assert frontier._connection.call(remove_command(shard)) is False


def test_an_interrupted_removal_can_be_finished(busy_crawl, any_server, crawl, open_sync):
    first = busy_crawl(seen="compact", shards=2)
    first._connection.call(set_crawl_field(first.layout.keys, "shut", "1"))
    while first._connection.call(remove_command(first.layout.shards[0])):
        pass
    first._connection.call(remove_command(first.layout.shards[1]))
    with pytest.raises(UnknownCrawl, match=f"is being removed; to finish that, run: silkline crawl rm {crawl}"):
        open_sync(url=any_server.url)
    open_sync(url=any_server.url, create=False).admin.remove()
    assert keys_of(any_server, crawl) == []


def test_whoever_still_has_the_crawl_open_is_reported(busy_crawl, any_server, crawl, open_sync):
    frontier = busy_crawl()
    other = open_sync(url=any_server.url)
    frontier.admin.remove()
    for act in (
        other.admin.stats,
        lambda: other.claim(1),
        lambda: other.enqueue("https://a.example/"),
        frontier.admin.stats,
    ):
        with pytest.raises(UnknownCrawl):
            act()


def test_a_name_can_be_used_again_with_other_settings(busy_crawl, any_server, crawl, open_sync):
    frontier = busy_crawl(seen="exact", shards=3)
    frontier.admin.remove()
    again = open_sync(url=any_server.url, seen="compact", shards=2, politeness=Politeness(delay=0))
    assert again.enqueue(urls(10)) == [Admission.ADDED] * 10
    assert len(again.claim(10)) == 10
    again.admin.remove()


def test_a_crawl_can_be_removed_twice(busy_crawl):
    frontier = busy_crawl()
    frontier.admin.remove()
    frontier.admin.remove()


def test_what_waits_on_disk_goes_too(valkey, crawl, tmp_path, open_sync):
    frontier = open_sync(capacity=2, overflow=tmp_path / "overflow.db", politeness=Politeness(delay=0))
    frontier.enqueue("https://a.example/")
    [lease] = frontier.claim(1)
    frontier.complete(lease, links=urls(2_500))
    assert frontier.admin.stats().overflow > 1_000
    frontier.admin.remove()
    again = open_sync(overflow=tmp_path / "overflow.db")
    assert again.admin.stats().overflow == 0
    assert again.claim(1) == []
    again.admin.remove()


async def test_the_async_frontier_removes_too(open_frontier, valkey, crawl):
    frontier = await open_frontier()
    await frontier.enqueue(urls(10))
    await frontier.admin.remove()
    assert keys_of(valkey, crawl) == []


def test_other_crawls_are_left_alone(valkey, crawl, open_sync):
    neighbor = open_sync(crawl=f"{crawl}-2")
    neighbor.enqueue(urls(10))
    frontier = open_sync()
    frontier.enqueue(urls(10))
    frontier.admin.remove()
    assert neighbor.admin.stats().ready == 10
    neighbor.admin.remove()


def test_out_of_memory_a_crawl_can_still_be_removed(servers, any_server, crawl):
    with SyncFrontier.open(any_server.url, crawl=crawl) as frontier, any_server.client() as client:
        frontier.enqueue(urls(1_000))
        client.config_set("maxmemory", 1)
        try:
            frontier.admin.remove()
        finally:
            client.config_set("maxmemory", 0)
    assert keys_of(any_server, crawl) == []
