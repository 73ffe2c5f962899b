"""Lookout: which shards to ask, and when."""

from __future__ import annotations

from silkline.core.lookout import SAFETY_LOOK, SPACING, Lookout


def test_at_first_every_shard_is_asked_each_time_starting_elsewhere():
    lookout = Lookout(3)
    orders = [lookout.due(0.0) for _ in range(3)]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert {order[0] for order in orders} == {0, 1, 2}


def test_a_shard_is_asked_again_when_it_said_so():
    lookout = Lookout(2)
    lookout.answered(0, 1.5, asked=10.0, now=10.0)
    lookout.answered(1, None, asked=10.0, now=10.0)
    assert lookout.due(11.0) == []
    assert lookout.due(11.5) == [0]


def test_a_silent_shard_is_asked_once_in_a_while():
    lookout = Lookout(1)
    lookout.answered(0, None, asked=0.0, now=0.0)
    assert lookout.due(SAFETY_LOOK - 0.1) == []
    assert lookout.due(SAFETY_LOOK) == [0]


def test_many_silent_shards_are_asked_less_often():
    lookout = Lookout(640)
    for shard in range(640):
        lookout.answered(shard, None, asked=0.0, now=0.0)
    assert lookout.due(63.0) == []


def test_the_bell_brings_a_look_forward_but_never_puts_it_off():
    lookout = Lookout(1)
    lookout.answered(0, 3.0, asked=0.0, now=0.0)
    lookout.heard(0, 4.0, 0.5)
    assert lookout.next_look == 3.0
    lookout.heard(0, 0.0, 1.0)
    assert lookout.due(1.0) == [0]


def test_looks_that_find_nothing_come_less_and_less_often():
    lookout = Lookout(1)
    pauses = []
    for _ in range(6):
        lookout.answered(0, 0.0, asked=0.0, now=0.0)
        pauses.append(lookout.pause(0.0))
    assert pauses == sorted(pauses)
    assert pauses[-1] == SPACING[-1] > 1 / 20
    lookout.found()
    assert lookout.spacing == 0.0
