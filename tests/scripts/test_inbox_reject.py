from __future__ import annotations

from silkline.frontier.store.keys import InboxKeys
from tests.scripts.inbox import act, take


def test_what_is_refused_is_put_aside_once_and_comes_no_more(shard, client, crawl, clock):
    inbox = InboxKeys(f"{crawl}:urls")
    client.rpush(inbox.key, "a", "b", "c")
    ids = take(shard, inbox, 3, "t", hold=1000)[::2]
    assert act(shard, inbox, "inbox_reject", ids[:2]) == 2
    assert act(shard, inbox, "inbox_reject", ids[:2]) == 0
    clock.advance(1)
    assert take(shard, inbox, 3, "u", hold=1000) == [ids[2], b"c"]
    assert client.lrange(inbox.refused, 0, -1) == [b"a", b"b"]
