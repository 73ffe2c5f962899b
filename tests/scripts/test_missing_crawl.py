"""Scripts of a crawl's hash refuse a hash without settings: the crawl was removed, or it has lost them."""

from __future__ import annotations

import pytest

from tests.scripts.test_headers import NAMES, text_of

CALLS = {
    "activity": (7,),
    "add_history": ("1 2", "", "1;parse\n"),
    "feed_position": ("urls.txt", 5, "7"),
    "grant_pages": (10, 0, 0, 0, 5),
    "handlers": (),
    "history": ("fine", 3),
    "hold": ("lock:a", "one", 1000, 1),
    "join": ("one", 30_000, ""),
    "leave": ("one", 1),
    "note_overflow": ("store", 1, 5, 0),
    "order": ("one", "stop"),
    "proxies": (10,),
    "release_hold": ("lock:a", "one"),
    "renew_hold": ("lock:a", "one", 1000),
    "run_options": ("{}",),
    "session_state": ("one", 0, 0, 1000, 10, b"x"),
    "share_proxies": ("one", 0, 10, 2000, 30_000, "http://a.example:80", "failed", "x", ""),
    "take_permit": ("limiter:a", "100.0", 1),
    "workers": (10,),
}


def test_every_script_that_checks_is_called_here():
    assert set(CALLS) == {name for name in NAMES if '--- @include "crawl"' in text_of(name)}


@pytest.mark.parametrize("name", CALLS)
def test_it_changes_nothing(shard, client, name):
    keys = shard.layout.keys
    client.hset(keys.settings, "founded", 1)
    with pytest.raises(Exception, match="NOCRAWL"):
        shard.run(name, *CALLS[name], key=keys.settings)
    assert client.hgetall(keys.settings) == {b"founded": b"1"}
    assert not client.exists(
        keys.workers, keys.infos, keys.orders, keys.history, keys.locks, keys.lock_ends, keys.proxies, keys.sessions
    )
