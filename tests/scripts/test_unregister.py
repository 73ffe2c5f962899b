from __future__ import annotations

from silkline.frontier.store.keys import CRAWLS


def test_a_crawl_is_struck_off_once(shard, crawl):
    shard.run("register", crawl, key=CRAWLS)
    assert shard.run("unregister", crawl, key=CRAWLS) == 1
    assert shard.run("unregister", crawl, key=CRAWLS) == 0
    assert crawl.encode() not in shard.run("register", "", key=CRAWLS)
