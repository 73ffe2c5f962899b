"""PollSchedule: which shards to ask, and when."""

from __future__ import annotations

import pytest

from silkline.frontier.transport.notifier import SAFETY_POLL, SPACING, PollSchedule


def test_at_first_every_shard_is_asked_each_time_starting_elsewhere():
    schedule = PollSchedule(3)
    orders = [schedule.due(0.0) for _ in range(3)]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert {order[0] for order in orders} == {0, 1, 2}


def test_a_shard_is_asked_again_when_it_said_so():
    schedule = PollSchedule(2)
    schedule.replied(0, 1.5, asked=10.0, now=10.0)
    schedule.replied(1, None, asked=10.0, now=10.0)
    assert schedule.due(11.0) == []
    assert schedule.due(11.5) == [0]


def test_a_silent_shard_is_asked_once_in_a_while():
    schedule = PollSchedule(1)
    schedule.replied(0, None, asked=0.0, now=0.0)
    assert schedule.due(SAFETY_POLL - 0.1) == []
    assert schedule.due(SAFETY_POLL) == [0]


def test_many_silent_shards_are_asked_less_often():
    schedule = PollSchedule(640)
    for shard in range(640):
        schedule.replied(shard, None, asked=0.0, now=0.0)
    assert schedule.due(63.0) == []


def test_the_bell_brings_a_look_forward_but_never_puts_it_off():
    schedule = PollSchedule(1)
    schedule.replied(0, 3.0, asked=0.0, now=0.0)
    schedule.notified(0, 4.0, 0.5)
    assert schedule.next_poll == 3.0
    schedule.notified(0, 0.0, 1.0)
    assert schedule.due(1.0) == [0]


def test_looks_that_find_nothing_come_less_and_less_often():
    schedule = PollSchedule(1)
    pauses = []
    for second in range(1, 7):
        schedule.replied(0, 0.0, asked=second, now=second)
        schedule.waits()
        schedule.waits()  # another claim, which has not polled
        pauses.append(schedule.next_turn - second)
    assert pauses == pytest.approx([*SPACING[1:], *[SPACING[-1]] * 3])
    assert pauses[-1] == pytest.approx(SPACING[-1])
    assert pauses[-1] > 1 / 20
    schedule.replied(0, 0.0, asked=7, now=7, found=True)
    assert schedule.next_turn == 7


def test_a_notification_is_followed_at_once_whatever_other_looks_have_found():
    schedule = PollSchedule(2)
    for second in range(1, 7):
        schedule.replied(0, 0.0, asked=second, now=second)
        schedule.waits()
    schedule.replied(0, None, asked=7, now=7)
    schedule.waits()
    schedule.notified(0, 0.0, now=7.001)
    assert schedule.next_turn == 7.001
    schedule.notified(0, 5.0, now=7.001)
    assert schedule.next_turn == 7.001, "the earlier one applies"


def test_who_loses_the_race_after_notifications_looks_less_often():
    schedule = PollSchedule(1)
    pauses = []
    for second in range(1, 7):
        schedule.notified(0, 0.0, now=second - 0.1)
        schedule.replied(0, None, asked=second, now=second)
        schedule.waits()
        schedule.notified(0, 0.0, now=second)
        pauses.append(schedule.next_turn - second)
    assert pauses == pytest.approx([*SPACING, *[SPACING[-1]] * 2])
    assert pauses[-1] == pytest.approx(SPACING[-1])
    schedule.replied(0, None, asked=8, now=8, found=True)
    schedule.notified(0, 0.0, now=8.001)
    assert schedule.next_turn == 8.001


def test_shards_are_asked_by_priority_and_those_without_requests_last():
    schedule = PollSchedule(5)
    for shard, priority in enumerate((0, 7, -3, 9)):
        schedule.replied(shard, 0, asked=1.0, now=1.0, found=True, priority=priority)
    schedule.replied(4, None, asked=1.0, now=1.0, found=True)
    schedule.poll_all()
    assert [schedule.due(1.0) for _ in range(5)] == [[3, 1, 0, 2, 4]] * 5
    schedule.notified(4, 0.0, 1.1, 8)
    assert schedule.due(1.2) == [3, 4, 1, 0, 2]


def test_a_shard_without_requests_is_not_asked_last_for_long():
    schedule = PollSchedule(2)
    schedule.replied(0, None, asked=1.0, now=1.0)
    schedule.poll_all()
    assert {schedule.due(1.5)[0] for _ in range(2)} == {1}
    assert {schedule.due(2.5)[0] for _ in range(2)} == {0, 1}


def test_the_priority_of_the_next_shard_is_the_floor():
    schedule = PollSchedule(3, {0: 9, 1: 5})
    assert schedule.due(0.0) == [0, 1, 2]
    assert [schedule.floor([0, 1, 2], place, 0.0) for place in (1, 2, 3)] == [5, 0, None]
    order = [0, 1, 2]
    schedule.replied(0, 0, asked=0.0, now=0.0, found=True, priority=3)
    schedule.poll_again(order, 1, 0, 0.0)
    assert order == [0, 1, 0, 2]


def test_a_floor_costs_one_more_poll_in_ten_in_the_long_run():
    """The worst case: each request has a priority of its own."""
    schedule, shards, polls, again = PollSchedule(8), 8, 0, 0
    for _ in range(1000):
        for shard in range(shards):
            schedule.replied(shard, 0, asked=0.0, now=0.0, found=True, priority=shard + 1)
        order = schedule.due(0.0)
        for place, shard in enumerate(order, 1):
            polls += 1
            if place <= shards and schedule.floor(order, place, 0.0) is not None:
                schedule.poll_again(order, place, shard, 0.0)
                again += 1
    assert 0 < again <= polls / 10 + shards


def test_a_shard_on_which_requests_are_due_comes_before_those_without_priority():
    schedule = PollSchedule(3, {1: 5})
    for shard in range(3):
        schedule.replied(shard, 0, asked=1.0, now=1.0, found=True, priority=5 if shard == 1 else 0)
    schedule.notified(2, 3.0, now=1.0)
    schedule.replied(2, 0, asked=2.0, now=2.0, found=True)  # it has others until then
    assert schedule.due(3.9)[0] == 1
    assert [schedule.due(4.0)[:2] for _ in range(3)] == [[1, 2]] * 3
    assert schedule.floor([1, 2, 0], 1, 4.0) == 0
    schedule.replied(2, 0, asked=4.1, now=4.1, found=True)
    assert {schedule.due(4.2)[1] for _ in range(3)} == {0, 2}
