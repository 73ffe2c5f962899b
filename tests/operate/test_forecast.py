"""When a crawl will be full, and its server out of memory, from how both grew."""

from __future__ import annotations

import math

import pytest

from silkline.frontier.admin_verbs.forecast import seconds_until_full, seconds_until_out_of_memory
from silkline.frontier.admin_verbs.stats import EarlierLevels
from silkline.frontier.transport.server_info import Memory
from silkline.frontier.verbs.history import Levels
from silkline.ops.notices import HORIZON, crawl_notices, memory_notice
from tests.operate.test_notices import NOW, status


def before(seconds, **levels):
    none = dict.fromkeys(("ready", "delayed", "leased", "done", "dead", "discarded", "overflow"), 0)
    return EarlierLevels(NOW - seconds, Levels(**none | levels))


GROWTH = [
    (before(600, ready=200, delayed=50), 700 / 50 * 600),  # 300 wait now, of 1,000
    (before(600, ready=300), math.inf),
    (before(600, ready=900), math.inf),
    (before(59, ready=200), math.inf),
    (None, math.inf),
]


@pytest.mark.parametrize(("earlier", "seconds"), GROWTH)
def test_a_crawl_is_full_when_its_growth_has_used_its_capacity(earlier, seconds):
    assert seconds_until_full(status(earlier=earlier)) == seconds


def test_a_full_crawl_needs_no_forecast():
    assert seconds_until_full(status(full=True, earlier=before(600))) == 0
    assert [notice.kind for notice in crawl_notices(status(full=True, earlier=before(600)))] == ["full"]


def test_a_server_is_out_of_memory_when_its_growth_has_used_its_limit():
    growing = status(earlier=before(600, server_memory=400))
    unknown = status(earlier=before(1800))
    assert seconds_until_out_of_memory(Memory(500, 900), [growing, unknown]) == 4 * 600
    assert (
        seconds_until_out_of_memory(Memory(500, 900), [growing, status(earlier=before(1200, server_memory=400))])
        == 4800
    )
    assert seconds_until_out_of_memory(Memory(500, None), [growing]) == math.inf
    assert seconds_until_out_of_memory(Memory(400, 900), [growing]) == math.inf
    assert seconds_until_out_of_memory(Memory(500, 900), [unknown, status()]) == math.inf
    assert seconds_until_out_of_memory(Memory(900, 900), []) == 0


def test_both_are_notices_if_they_are_near():
    [notice] = crawl_notices(status(earlier=before(600, ready=250)))
    assert (notice.kind, notice.severe, notice.short) == ("forecast", False, "full in 2.3 h")
    assert notice.sentence == (
        "full in about 2.3 h at this rate (300 of 1,000 requests wait): "
        "add workers, or raise the capacity with silkline crawl set shop --capacity 2000"
    )
    assert crawl_notices(status(earlier=before(600, ready=250), state="cancelled")) == []
    assert crawl_notices(status(earlier=before(HORIZON / 2, ready=0))) == []
    growing = [status(earlier=before(1800, server_memory=400))]
    notice = memory_notice(Memory(500, 900), growing)
    assert (notice.kind, notice.severe) == ("forecast", False)
    assert notice.text == "the server will be out of memory in about 2.0 h at this rate (500 B of 900 B)"
    assert memory_notice(Memory(500, 90_000), growing) is None
    assert memory_notice(Memory(899, 900), growing).kind == "memory"
