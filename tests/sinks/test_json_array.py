"""A JSON array is complete after each batch, whoever reads it, and whatever a crash or a person has left."""

from __future__ import annotations

import json
import os

import pytest

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks import open_sink
from tests.sinks.making import record
from tests.sinks.test_files import write_and_die


def numbers(path):
    return [item["n"] for item in json.loads(path.read_bytes())]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "books.json"


async def write(path, *records):
    sink = open_sink(path)
    await sink.write(records)
    await sink.close()


async def test_it_is_an_array_from_the_first_moment_and_after_each_batch(path):
    sink = open_sink(path)
    assert path.read_bytes() == b"[]\n"
    await sink.write([record(1), record(2)])
    assert path.read_bytes() == b'[\n{"n":1},\n{"n":2}\n]\n'
    await sink.write([record(3)])
    assert numbers(path) == [1, 2, 3]
    await sink.close()
    await write(path, record(4))
    assert numbers(path) == [1, 2, 3, 4]
    assert [one.name for one in path.parent.iterdir()] == ["books.json"]


class Place:
    def __init__(self, path):
        self.open = lambda: open_sink(path)


@pytest.mark.parametrize("first", [0, 2])
async def test_a_batch_that_was_cut_off_anywhere_is_moved_away(path, first):
    """A batch overwrites the end of the array, so what a crash leaves begins there."""
    await write_and_die(Place(path), *map(record, range(first)))
    before, side = path.read_bytes(), path.with_name(".books.json.silkline")
    mark = side.read_bytes()
    offset = int(mark.split()[1])
    await write(path, record(7, text="] [1]"), record(8))
    after = path.read_bytes()
    for length in range(offset + 1, len(after) + 1):
        with path.open("r+b") as file:  # the same inode, which the mark names
            file.write(after[:length] + before[length:])
            file.truncate()
        side.write_bytes(mark)
        await write(path, record(9))
        whole = 2 if length >= len(after) - 3 else 1 if length > after.rindex(b",\n") - 1 else 0
        assert numbers(path) == [*range(first), *[7, 8][:whole], 9], (length, path.read_bytes())
    assert path.with_name("books.json.torn").exists()


@pytest.mark.parametrize(
    "text", ["[]", " [ ]\n\n", '[{"n": 1}]', '[\n{"n": 1},\n{"n": 2}\n]', '\n[\n  {\n    "n": 1\n  }\n]\n', ""]
)
async def test_an_array_that_another_program_wrote_is_continued(path, text):
    path.write_text(text)
    before = numbers(path) if text else []
    await write(path, record(3), record(4))
    assert numbers(path) == [*before, 3, 4]


async def test_an_array_that_a_person_edits_meanwhile_stays_as_it_is(path):
    await write_and_die(Place(path), record(1), record(2))
    with path.open("r+b") as file:
        file.write(json.dumps([{"n": 5, "long": "x" * 100}, {"n": 6}], indent=2).encode())
        file.truncate()
    await write(path, record(7))
    assert numbers(path) == [5, 6, 7]
    assert not path.with_name("books.json.torn").exists()


@pytest.mark.parametrize("text", ['{"name": "package"}', "[1, 2", "n,text\n1,x\n"])
async def test_another_file_is_refused_and_left_alone(path, text):
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"books\.json cannot be written: it exists and is not a JSON array; move it"):
        open_sink(path)
    assert path.read_text() == text


async def test_a_file_that_is_replaced_while_it_is_open_is_left_alone_until_it_is_an_array(path):
    sink = open_sink(path)
    await sink.write([record(1)])
    path.unlink()
    path.write_text("{}")
    with pytest.raises(SinkUnavailable, match="not a JSON array"):
        await sink.write([record(2)])
    assert path.read_text() == "{}"
    path.write_text("[]")
    await sink.write([record(2)])
    await sink.close()
    assert numbers(path) == [2]


async def test_a_full_disk_leaves_a_complete_array(path, monkeypatch):
    sink = open_sink(path)
    await sink.write([record(1)])
    true = os.pwrite

    def half(file, data, offset):
        if b'"n":2' not in bytes(data):
            return true(file, data, offset)
        true(file, data[:5], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(SinkUnavailable, match="No space left"):
        await sink.write([record(2)])
    assert numbers(path) == [1]
    monkeypatch.undo()
    await sink.write([record(2)])
    await sink.close()
    assert numbers(path) == [1, 2]
