import random

import pytest

from silkline import Backoff, Bury, RetryIn
from silkline.core.retries import Retries
from silkline.errors import ConfigError, FetchError, FetchTimeout, ForbiddenAddress

RNG = random.Random(1)


def after_status(retries, status, attempt=1, retry_after=None):
    return retries.after_status(status, attempt=attempt, retry_after=retry_after, rng=RNG)


def test_what_heals_is_tried_again_and_what_does_not_is_buried():
    assert isinstance(after_status(Retries(), 500), RetryIn)
    assert after_status(Retries(), 404) == Bury("status 404", 404)
    assert after_status(Retries(), 501) == Bury("status 501", 501)
    assert isinstance(after_status(Retries(), 500, attempt=5), Bury)


def test_a_host_that_says_when_to_come_back_is_left_alone_until_then():
    verdict = after_status(Retries(), 429, retry_after=30.0)
    assert (verdict.after, verdict.block_host, verdict.slow_host) == (30.0, True, False)
    verdict = after_status(Retries(), 503)
    assert (verdict.block_host, verdict.slow_host) == (False, True)
    assert after_status(Retries(), 500, retry_after=30.0).block_host is False


def test_errors_are_tried_again_unless_that_is_hopeless():
    again = Retries().after_error(FetchTimeout("too slow"), attempt=1, rng=RNG)
    assert isinstance(again, RetryIn)
    assert again.reason == "timeout: too slow"
    assert isinstance(Retries().after_error(ForbiddenAddress("10.0.0.1"), attempt=1, rng=RNG), Bury)


def test_a_host_that_floods_waits_as_a_whole():
    flood = FetchError("5,000,000 bytes of interim responses", "flood")
    verdict = Retries(backoff=Backoff(steps=(1, 100))).after_error(flood, attempt=1, rng=RNG)
    assert (verdict.after, verdict.block_host) == (30.0, True)
    verdict = Retries(backoff=Backoff(steps=(1, 100))).after_error(flood, attempt=2, rng=RNG)
    assert (verdict.after, verdict.block_host) == (100.0, True)
    assert isinstance(Retries(backoff=Backoff(steps=(1,))).after_error(flood, attempt=2, rng=RNG), Bury)


def test_a_crawl_can_retry_what_it_likes():
    retries = Retries(statuses=frozenset({418}), backoff=Backoff(steps=(7,)))
    assert after_status(retries, 418).after == 7
    assert isinstance(after_status(retries, 500), Bury)


def test_retries_are_made_of_what_users_write():
    assert Retries.of(None) == Retries()
    assert Retries.of([1, 2]).backoff.steps == (1, 2)
    assert Retries.of(Backoff(base=2)).backoff.base == 2
    with pytest.raises(ConfigError, match="list of seconds"):
        Retries.of("often")
