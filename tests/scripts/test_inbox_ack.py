from __future__ import annotations

from silkline.frontier.store.keys import InboxKeys
from tests.scripts.inbox import act, take


def test_what_is_done_is_forgotten_once(shard, client, crawl, clock):
    inbox = InboxKeys(f"{crawl}:urls")
    client.rpush(inbox.key, "a", "b", "c")
    ids = take(shard, inbox, 3, "t", hold=1000)[::2]
    assert act(shard, inbox, "inbox_ack", ids[:2]) == 2
    assert act(shard, inbox, "inbox_ack", ids[:2]) == 0
    clock.advance(1)
    assert take(shard, inbox, 3, "u", hold=1000) == [ids[2], b"c"]
    assert act(shard, inbox, "inbox_ack", ids) == 1
    assert client.exists(inbox.taken, inbox.messages) == 0
