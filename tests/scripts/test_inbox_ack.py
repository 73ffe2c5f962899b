from __future__ import annotations

from silkline.frontier.store.keys import InboxKeys


def test_what_is_done_is_forgotten_once(shard, client, crawl, clock):
    inbox = InboxKeys(f"{crawl}:urls")
    client.rpush(inbox.key, "a", "b", "c")
    ids = shard.run("inbox_take", inbox.root, "list", 3, 1000, "t", key=inbox.key)[::2]
    assert shard.run("inbox_ack", *ids[:2], key=inbox.root) == 2
    assert shard.run("inbox_ack", *ids[:2], key=inbox.root) == 0
    clock.advance(1)
    assert shard.run("inbox_take", inbox.root, "list", 3, 1000, "u", key=inbox.key) == [ids[2], b"c"]
    assert shard.run("inbox_ack", *ids, key=inbox.root) == 1
    assert client.exists(inbox.taken, inbox.messages) == 0
