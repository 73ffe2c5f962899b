from __future__ import annotations

from silkline.frontier.store.keys import InboxKeys
from tests.scripts.inbox import take


def test_it_counts_what_nobody_took_and_what_is_taken(shard, client, crawl):
    inbox = InboxKeys(f"{crawl}:urls")
    assert shard.run("inbox_count", inbox.root, key=inbox.key) == [0, 0]
    client.sadd(inbox.key, "a", "b", "c")
    take(shard, inbox, 2, "t", "set", hold=1000)
    assert shard.run("inbox_count", inbox.root, key=inbox.key) == [1, 2]
    client.delete(inbox.key)
    client.zadd(inbox.key, {"a": 1})
    assert shard.run("inbox_count", inbox.root, key=inbox.key) == [1, 2]
    client.set(inbox.key, "of another type")
    assert shard.run("inbox_count", inbox.root, key=inbox.key) == [0, 2]
