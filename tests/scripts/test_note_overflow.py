from __future__ import annotations

import pytest


def note(shard, store, version, requests, refused=0):
    shard.refused, *pairs = shard.run(
        "note_overflow", store, version, requests, refused, key=shard.layout.keys.settings
    )
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def test_the_latest_note_of_each_store_holds(shard):
    shard.run("create", b"settings", key=shard.layout.keys.settings)
    assert note(shard, "", 0, 0) == {}
    assert note(shard, "one", 1, 5) == {b"one": b"5"}
    assert note(shard, "two", 1, 7) == {b"one": b"5", b"two": b"7"}
    assert note(shard, "one", 3, 2) == {b"one": b"2", b"two": b"7"}
    assert note(shard, "one", 2, 9) == {b"one": b"2", b"two": b"7"}
    assert note(shard, "two", 2, 0) == {b"one": b"2"}
    assert note(shard, "", 9, 9) == {b"one": b"2"}


def test_what_stores_have_refused_is_added_up(shard):
    shard.run("create", b"settings", key=shard.layout.keys.settings)
    for store, version, refused, total in (
        ("one", 1, 0, b"0"),
        ("one", 2, 5, b"5"),
        ("two", 1, 7, b"12"),
        ("one", 1, 3, b"12"),
    ):
        note(shard, store, version, 1, refused)
        assert shard.refused == total
    assert note(shard, "one", 3, 0, 6) == {b"two": b"1"}
    assert shard.refused == b"13"


def test_a_crawl_without_settings_is_not_written_to(shard, client):
    for words in (("", 0, 0), ("one", 1, 5)):
        with pytest.raises(Exception, match="NOCRAWL"):
            note(shard, *words)
    assert client.exists(shard.layout.keys.settings) == 0
