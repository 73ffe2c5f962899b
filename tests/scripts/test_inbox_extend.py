from __future__ import annotations

from silkline.frontier.store.keys import InboxKeys


def test_what_is_extended_does_not_come_again_and_what_is_done_stays_away(shard, client, crawl, clock):
    inbox = InboxKeys(f"{crawl}:urls")
    client.rpush(inbox.key, "a", "b", "c")
    ids = shard.run("inbox_take", inbox.root, "list", 3, 1000, "t", key=inbox.key)[::2]
    shard.run("inbox_ack", ids[2], key=inbox.root)
    clock.advance(0.9)
    assert shard.run("inbox_extend", 1000, ids[0], ids[2], "other:1", key=inbox.root) == 1
    clock.advance(0.1)
    assert shard.run("inbox_take", inbox.root, "list", 3, 1000, "u", key=inbox.key) == [ids[1], b"b"]
    clock.advance(0.9)
    assert shard.run("inbox_take", inbox.root, "list", 3, 1000, "v", key=inbox.key) == [ids[0], b"a"]
    assert client.zcard(inbox.taken) == client.hlen(inbox.messages) == 2
