from __future__ import annotations

import pytest

from silkline.frontier.user_keys import import_source

KEY = "{shop}:requests"


@pytest.fixture
def look(client):
    """All of a key, in parts of three."""
    client.delete(KEY)

    def read():
        cursor, parts = "0", []
        while True:
            command = import_source.source_read(KEY, cursor, 3)
            part = command.decode(client.eval(command.script.source, 1, KEY, *command.args))
            parts.append(part)
            cursor = part.cursor
            if cursor == "0":
                return parts

    return read


def test_a_list_is_read_from_its_right_end(client, look):
    client.lpush(KEY, *range(8))
    parts = look()
    assert [[int(entry.data) for entry in part.entries] for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert {(part.kind, part.size) for part in parts} == {("list", 8)}
    assert all(entry.score is None for part in parts for entry in part.entries)
    client.lpush(KEY, 8)
    assert [len(part.entries) for part in look()] == [3, 3, 3], "without an empty part at the end"


def test_sets_and_sorted_sets_are_read_whole(client, look):
    members = [f"member {number} {'x' * 100}" for number in range(700)]
    client.sadd(KEY, *members)
    parts = look()
    assert len(parts) > 1
    assert {entry.data.decode() for part in parts for entry in part.entries} == set(members)
    client.delete(KEY)
    client.zadd(KEY, {member: -number / 2 for number, member in enumerate(members)})
    parts = look()
    assert parts[0].kind == "zset"
    assert {entry.data.decode(): entry.score for part in parts for entry in part.entries} == {
        member: -number / 2 for number, member in enumerate(members)
    }


def test_a_key_that_is_not_there_or_something_else_has_no_entries(client, look):
    [nothing] = look()
    assert (nothing.kind, nothing.size, nothing.entries) == ("none", 0, [])
    client.set(KEY, "text")
    [text] = look()
    assert (text.kind, text.entries) == ("string", [])
