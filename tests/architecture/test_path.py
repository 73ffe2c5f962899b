"""How many source files one request passes, from `enqueue` to *done*. The numbers may only fall.

Those of `enqueue`: ``frontier`` (the public method), ``session`` (runs flows for the public classes), ``verbs/enqueue``,
``core/url`` and ``store/record`` (the URL, and what is stored of it), ``transport/command``, ``connection``, ``calls`` and
``nodes`` (what is sent, sending it, its name, and the server). With several shards, also ``store/layout``, which chooses the shard.
"""

from __future__ import annotations

import pytest

from tests.architecture.trace import report, trace_all

MOST = {1: (9, 36), 4: (10, 37)}
"""Files of `enqueue` and of a whole page, by the number of shards."""


@pytest.mark.parametrize("shards", MOST)
async def test_the_path_of_a_request_is_short(shards):
    enqueue, page = await trace_all(shards)
    most_enqueue, most_page = MOST[shards]
    assert len(enqueue) <= most_enqueue, report("enqueue", enqueue)
    assert len(page) <= most_page, report("a page, from enqueue to done", page)
    assert len(enqueue) > 5, "the trace sees too little to be right"
