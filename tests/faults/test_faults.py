"""Crawls during which a fault happens: nothing is lost, and nothing illegal happens. `make faults` also looks at the gaps."""

from __future__ import annotations

import pytest

from tests.faults.report import is_bad, line_of
from tests.faults.scenes import FAULTS, SHORT, run

ALWAYS_RUN = ("worker killed", "server killed, appendfsync always")


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=[] if name in ALWAYS_RUN else pytest.mark.long) for name in FAULTS]
)
def test_a_crawl_survives(fault):
    outcome = run(fault, 1, SHORT)
    print(line_of(outcome))
    assert not is_bad(outcome, check_gaps=False), line_of(outcome)
    assert outcome.repeated == 0 or FAULTS[fault].may_lose
