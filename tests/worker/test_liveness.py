"""Whatever a host does, another one goes on being crawled, and the worker's memory stays bounded."""

from __future__ import annotations

import pytest

from tests.worker.liveness import ATTACKS, LEAST_RATIO, MOST_MEMORY, measure

TOGETHER = ["charsets", "nested elements"]


def check(measured):
    assert measured.ratio >= LEAST_RATIO, measured
    assert measured.memory < MOST_MEMORY, measured


@pytest.mark.parametrize("fetcher", ["wreq", "aiohttp"])
def test_hostile_hosts_do_not_hold_up_a_good_one(fetcher, valkey, crawl):
    """The short form; `make chaos` runs every attack by itself, with one worker and with two."""
    check(measure(valkey.url, crawl, [ATTACKS[name] for name in TOGETHER], fetcher=fetcher))


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("fetcher", ["wreq", "aiohttp"])
@pytest.mark.parametrize("name", ATTACKS)
def test_one_attack_does_not_hold_up_a_good_host(name, fetcher, workers, valkey, crawl):
    check(measure(valkey.url, crawl, [ATTACKS[name]], fetcher=fetcher, workers=workers))
