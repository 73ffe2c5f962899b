"""Walks over the keys of several nodes: which comes next, and when it is over."""

from __future__ import annotations

import itertools

from silkline.frontier.transport.scanning import ROUNDS, START, identify

OLD, NEW = {"a": 1, "b": 1}, {"a": 1, "c": 2}


def test_a_walk_over_nodes_that_stay_is_one_round():
    first = START.again(OLD)
    assert (first.left, first.cursor) == (("a", "b"), 0)
    second = first.after(7).after(0)
    assert (second.left, second.cursor) == (("b",), 0)
    assert second.after(0).again(OLD) is None


def test_a_cursor_stays_with_its_node():
    position = START.again(OLD).after(7)
    assert position.among({"a", "b"}) is position
    assert (position.among({"a"}).left, position.among({"a"}).cursor) == (("a",), 7)
    assert (position.among({"b", "c"}).left, position.among({"b", "c"}).cursor) == (("b",), 0)


def test_a_node_that_left_and_came_back_is_visited():
    position = START.again(OLD).after(7).among({"b"}).after(0)
    assert position.again(OLD).left == ("a", "b")


def test_a_walk_ends_though_the_nodes_always_change():
    position, rounds = START, 0
    for change in itertools.count():
        position = position.again({"a": change})
        if position is None:
            break
        position, rounds = position.after(0), rounds + 1
    assert rounds == ROUNDS


def test_a_server_is_reported_from_the_next_at_its_address_and_by_its_slots():
    slots = [[0, 5, [b"127.0.0.1", 7000, b"id", []]], [6, 9, [b"127.0.0.1", 7001, b"id", []]]]
    replica = [b"127.0.0.1", 7002, b"id", []]
    one = identify({"run_id": "x"}, slots)
    assert one == identify({"run_id": "x"}, [[*slots[1], replica], slots[0]])
    assert one != identify({"run_id": "y"}, slots)
    assert one != identify({"run_id": "x"}, [[0, 6, slots[0][2]], [7, 9, slots[1][2]]])
    assert identify({"run_id": "x"}, []) == identify({"run_id": "x"}, [])
