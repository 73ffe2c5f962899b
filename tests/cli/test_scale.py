"""What operators look at does not grow with the crawl: the commands that reach Redis tell. `benchmarks.operators` has the times."""

from __future__ import annotations

import pytest

from benchmarks import operators
from benchmarks.lab import Lab
from tests.servers import Server

SIZES = ((3_000, 400, 1_500), (12_000, 1_600, 6_000))
LOOKS_THROUGH_LETTERS = ("--host h5.example", "--status 503", "host show")
"""They look at one letter after the other, in bounded steps."""


@pytest.fixture(scope="module")
def costs():
    """Of every listing, on a small crawl and on one that is four times larger."""
    server = Server(tcp=True).start()
    lab, found = Lab(server.tcp_url, quick=True), []
    for size in SIZES:
        lab.redis.flushall()
        found.append(operators.measure_all(lab, *size))
    lab.redis.close()
    server.remove()
    return found


def test_no_listing_uses_a_command_that_reads_all_of_a_key(costs):
    assert [(cost.command, cost.forbidden) for cost in (*costs[0], *costs[1]) if cost.forbidden] == []


def test_a_listing_needs_no_more_calls_on_a_larger_crawl(costs):
    for small, large in zip(*costs, strict=True):
        if not any(words in small.command for words in LOOKS_THROUGH_LETTERS):
            before, after = (sum(calls for calls, _ in cost.used.values()) for cost in (small, large))
            assert after <= before * 3, small.command


def test_a_search_through_letters_takes_bounded_steps(costs):
    for cost in costs[1]:
        if any(words in cost.command for words in LOOKS_THROUGH_LETTERS):
            assert cost.used["evalsha"][0] < 60, cost
