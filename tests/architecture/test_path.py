"""How many source files one request passes, from `enqueue` to *done*. The numbers may only fall.

The goal of `enqueue` was 9 files. It passes 11, and each has its own topic:

- ``frontier`` (the public method), ``session`` (runs flows for the public classes), ``verbs/enqueue``
- ``core/url`` and ``store/record``: the URL, and what is stored of it. Claims, scopes and robots.txt use them too.
- ``transport/command``, ``connection``, ``calls`` and ``nodes``: what is sent, sending it, its name, and the server
- ``transport/concurrency``: is written by hand for async and for plain code, while ``connection`` and ``nodes`` are generated for plain
  code. Together they could not be.
- ``core/histogram``: measures the call. Workers and metrics use it too.
"""

from __future__ import annotations

from tests.architecture.trace import report, trace_all

ENQUEUE = 11
PAGE = 36
"""Files today. The goals were 9 and 36."""


async def test_the_path_of_a_request_is_short():
    enqueue, page = await trace_all()
    assert len(enqueue) <= ENQUEUE, report("enqueue", enqueue)
    assert len(page) <= PAGE, report("a page, from enqueue to done", page)
    assert len(enqueue) > 5, "the trace sees too little to be right"
