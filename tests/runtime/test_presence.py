"""Orders of an operator."""

from __future__ import annotations

import logging

from silkline.runtime.presence import Orders


def test_only_a_new_order_has_an_effect(caplog):
    caplog.set_level(logging.WARNING)
    calls = []
    orders = Orders(lambda: calls.append(orders.quiet), lambda: calls.append("stop"))
    for order in ("work", "quiet", "quiet", "work", "work", "quiet", "stop", "stop", "work"):
        orders.obey(order)
    assert calls == [True, False, True, "stop"]
    assert (orders.quiet, orders.stopped) == (True, True)
    assert [record.message for record in caplog.records] == [
        "claiming nothing more, as an operator has ordered",
        "working again, as an operator has ordered",
        "claiming nothing more, as an operator has ordered",
        "stopping, as an operator has ordered",
    ]
