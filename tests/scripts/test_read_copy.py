from __future__ import annotations

from silkline.frontier.store.settings import Settings


def test_a_ledger_reports_the_settings_and_the_pace_of_its_crawl(make_shard):
    shard = make_shard(seed=7)
    settings, *pace, state, epoch, allowance = shard.run("read_copy")
    assert Settings.decode(settings) == shard.layout.settings
    assert pace == [b"1000", b"1", b"1"]
    assert (state, epoch, allowance) == (b"open", None, None)


def test_without_a_ledger_nothing_is_reported(shard):
    assert shard.run("read_copy", key="silkline:{nowhere:0}:ledger") == [None] * 7
