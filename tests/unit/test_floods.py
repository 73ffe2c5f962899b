"""Which connections receive a flood: judged by what they have received at each look."""

from __future__ import annotations

import pytest

from silkline.fetch.limits import BUFFERED, ClientConnection, FloodDetector, PendingResponse

HEAD = 1_000
MUCH = HEAD + BUFFERED + 1
PAGE = PendingResponse(mark=1_000, port=80)
FLOOD = ClientConnection(PAGE, local_port=5_000)


@pytest.fixture
def floods():
    return FloodDetector(HEAD)


def look(floods, received, *, waiting=(PAGE,), reading=()):
    return dict(floods._judge([(FLOOD, received)], set(waiting), set(reading)))


def test_too_much_at_two_looks_in_a_row_is_a_flood(floods):
    assert [look(floods, MUCH * times) for times in range(4)] == [{}, {}, {PAGE: 2 * MUCH}, {PAGE: 3 * MUCH}]


def test_a_connection_that_had_received_much_before_it_was_seen_is_none(floods):
    assert [look(floods, 100 * MUCH) for _ in range(4)] == [{}] * 4


def test_as_much_as_a_head_may_have_between_two_looks_is_none(floods):
    assert [look(floods, (MUCH - 1) * times) for times in range(6)] == [{}] * 6


def test_a_quiet_look_begins_the_count_again(floods):
    assert [look(floods, MUCH * times) for times in (0, 1, 1, 2)] == [{}] * 4
    assert look(floods, MUCH * 3) == {PAGE: 3 * MUCH}


def test_a_body_in_progress_is_none_and_what_it_brought_does_not_count_later(floods):
    assert [look(floods, MUCH * times, reading=[FLOOD]) for times in range(6)] == [{}] * 6
    assert [look(floods, MUCH * times) for times in (9, 10)] == [{}] * 2


def test_a_response_that_began_since_the_last_look_begins_the_count_again(floods):
    for times in range(6):
        floods.answered(FLOOD)
        assert look(floods, MUCH * times) == {}
    assert [look(floods, MUCH * times) for times in (6, 7)] == [{}, {PAGE: 7 * MUCH}]


def test_a_connection_that_no_fetch_waits_for_is_none(floods):
    other = PendingResponse(mark=1_001, port=80)
    assert [look(floods, MUCH * times, waiting=[other]) for times in range(6)] == [{}] * 6
