from __future__ import annotations

from tests.scripts.waiting import GROUP, HOUR, START, join, open_group


def test_it_lists_groups_with_their_counts(shard):
    open_group(shard, lenient=1)
    join(shard, "..fx", "close")
    row = [GROUP.encode(), b"%d" % (START + HOUR), b"1", b"1", b"3", b"2", b"1"]
    assert shard.run("list_groups", 10, "") == row
    assert shard.run("list_groups", 1, GROUP) == row
    assert shard.run("list_groups", 10, "report/=other") == []
