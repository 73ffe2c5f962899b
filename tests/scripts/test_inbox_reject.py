from __future__ import annotations

from silkline.frontier.store.keys import InboxKeys


def test_what_is_refused_is_put_aside_once_and_comes_no_more(shard, client, crawl, clock):
    inbox = InboxKeys(f"{crawl}:urls")
    client.rpush(inbox.key, "a", "b", "c")
    ids = shard.run("inbox_take", inbox.root, "list", 3, 1000, "t", key=inbox.key)[::2]
    assert shard.run("inbox_reject", *ids[:2], key=inbox.root) == 2
    assert shard.run("inbox_reject", *ids[:2], key=inbox.root) == 0
    clock.advance(1)
    assert shard.run("inbox_take", inbox.root, "list", 3, 1000, "u", key=inbox.key) == [ids[2], b"c"]
    assert client.lrange(inbox.refused, 0, -1) == [b"a", b"b"]
