from __future__ import annotations

from silkline.frontier.store.keys import InboxKeys
from tests.scripts.inbox import act, take


def test_what_is_extended_does_not_come_again_and_what_is_done_stays_away(shard, client, crawl, clock):
    inbox = InboxKeys(f"{crawl}:urls")
    client.rpush(inbox.key, "a", "b", "c")
    ids = take(shard, inbox, 3, "t", hold=1000)[::2]
    act(shard, inbox, "inbox_ack", ids[2:])
    clock.advance(0.9)
    assert act(shard, inbox, "inbox_extend", [ids[0], ids[2], b"other:1"], 1000) == 1
    clock.advance(0.1)
    assert take(shard, inbox, 3, "u", hold=1000) == [ids[1], b"b"]
    clock.advance(0.9)
    assert take(shard, inbox, 3, "v", hold=1000) == [ids[0], b"a"]
    assert client.zcard(inbox.taken) == client.hlen(inbox.messages) == 2
