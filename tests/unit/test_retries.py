import random

import pytest

from silkline import Backoff, Bury, Request, RetryIn
from silkline.core.request import check
from silkline.core.retries import Retries
from silkline.errors import ConfigError, FetchError, FetchTimeout, ForbiddenAddress, RequestError

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


def test_the_retries_of_a_request_replace_those_of_the_crawl():
    crawl = Retries(backoff=Backoff(base=2, cap=3), accept=frozenset({404}))
    assert crawl.for_request(Request("https://a.example/")) is crawl
    listed = crawl.for_request(Request("https://a.example/", retries=[1, 10]))
    assert [after_status(listed, 500, attempt=n) for n in (1, 2)] == [
        RetryIn(1, "status 500", 500),
        RetryIn(10, "status 500", 500),
    ]
    assert isinstance(after_status(listed, 500, attempt=3), Bury)
    assert after_status(listed, 429, retry_after=30.0).after == 30.0
    counted = crawl.for_request(Request("https://a.example/", max_attempts=2))
    assert (counted.backoff.base, counted.backoff.cap, counted.accept) == (2, 3, {404})
    assert isinstance(counted.after_exception("KeyError", attempt=1, rng=RNG), RetryIn)
    assert isinstance(counted.after_exception("KeyError", attempt=2, rng=RNG), Bury)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"retries": "often"}, "retries must be a list of at most 100 numbers of seconds, got 'often'"),
        ({"retries": [-1]}, "retries must be a list"),
        ({"retries": [0] * 101}, "retries must be a list"),
        ({"max_attempts": 0}, "max_attempts must be an integer from 1 to 101, got 0"),
        ({"max_attempts": True}, "max_attempts must be an integer"),
        ({"max_attempts": 2, "retries": [1]}, "retries and max_attempts cannot be used together"),
    ],
)
def test_retries_of_a_request_that_cannot_be_used_are_refused(fields, message):
    with pytest.raises(RequestError, match=message):
        check(Request("https://a.example/", **fields))


def test_retries_are_made_of_what_users_write():
    assert Retries.of(None) == Retries()
    assert Retries.of([1, 2]).backoff.steps == (1, 2)
    assert Retries.of(Backoff(base=2)).backoff.base == 2
    with pytest.raises(ConfigError, match="list of seconds"):
        Retries.of("often")
