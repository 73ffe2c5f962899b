from __future__ import annotations

from silkline.frontier.store.keys import CRAWLS


def test_the_reply_is_the_names_of_all_crawls(shard, crawl):
    assert crawl.encode() not in shard.run("register", "", key=CRAWLS)
    assert crawl.encode() in shard.run("register", crawl, key=CRAWLS)
    assert shard.run("register", crawl, key=CRAWLS).count(crawl.encode()) == 1
    assert crawl.encode() in shard.run("register", "", key=CRAWLS)
