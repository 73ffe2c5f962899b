"""How many source files one request passes, from `enqueue` to *done*. The numbers may only fall.

Those of `enqueue`: ``frontier`` (the public method), ``session`` (runs flows for the public classes), ``verbs/enqueue``,
``core/url`` and ``store/record`` (the URL, and what is stored of it), ``transport/command``, ``connection``, ``calls`` and
``nodes`` (what is sent, sending it, its name, and the server).
"""

from __future__ import annotations

from tests.architecture.trace import report, trace_all

ENQUEUE = 9
PAGE = 36


async def test_the_path_of_a_request_is_short():
    enqueue, page = await trace_all()
    assert len(enqueue) <= ENQUEUE, report("enqueue", enqueue)
    assert len(page) <= PAGE, report("a page, from enqueue to done", page)
    assert len(enqueue) > 5, "the trace sees too little to be right"
