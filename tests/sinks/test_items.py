"""From items of any kind to plain data."""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from silkline.errors import InvalidItem
from silkline.sinks import record_of


@dataclasses.dataclass
class DataclassBook:
    title: str
    price: Decimal = Decimal("1.10")


@attrs.define
class AttrsBook:
    title: str
    price: Decimal = Decimal("1.10")


class PydanticBook(pydantic.BaseModel):
    title: str
    price: Decimal = Decimal("1.10")


class StructBook(msgspec.Struct):
    title: str
    price: Decimal = Decimal("1.10")


class Shelf(enum.Enum):
    TOP = "top"


class Level(enum.IntEnum):
    LOW = 1


def plain(item):
    return record_of("key", "https://a.example/", item).item


@pytest.mark.parametrize("kind", [dict, DataclassBook, AttrsBook, PydanticBook, StructBook])
def test_every_kind_of_item_becomes_a_dict(kind):
    book = kind(title="Emma", price=Decimal("1.10"))
    assert plain(book) == {"title": "Emma", "price": "1.10"}
    assert plain({"book": book, "books": [book]}) == {"book": plain(book), "books": [plain(book)]}


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(minutes=1), 60.0),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "AP8="),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset([("a", 1)]), [["a", 1]]),
        ({1, "a"}, ["a", 1]),
        ((1, 2), [1, 2]),
        (deque([1]), [1]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({1: "a"}, {"1": "a"}),
        (Shelf.TOP, "top"),
        (Level.LOW, 1),
        (PurePosixPath("a/b"), "a/b"),
        (float("nan"), None),
        (float("-inf"), None),
        (2**63 - 1, 2**63 - 1),
        (2**63, "9223372036854775808"),
        (10**5000, hex(10**5000)),
        ("a\ud800b", "a���b"),
        ("é", "é"),
        (None, None),
        (True, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_become_what_json_can_say(value, stored):
    found = plain({"value": value})["value"]
    assert found == stored
    assert type(found) is type(stored)


def nested(depth):
    return {"in": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"a": {"b": [1, object()]}}, r"field a\.b\.1 is of type object, which cannot be stored"),
        ({"a": DataclassBook}, "field a is of type type"),
        ({"a": {(1, 2): 3}}, r"field a\.\(1, 2\) has a name that is not a string, but tuple"),
        ({1: "a", "1": "b"}, "field 1 occurs twice"),
        (nested(200), "nested deeper than 100 levels"),
        ("text", "an item must be a dict, .* got str"),
        (None, "got NoneType"),
        (DataclassBook, "got type"),
    ],
    ids=range(8),
)
def test_what_cannot_be_stored_is_refused_and_named(item, message):
    with pytest.raises(InvalidItem, match=message):
        plain(item)


def test_an_item_that_contains_itself_is_refused():
    item = {}
    item["me"] = item
    with pytest.raises(InvalidItem, match="nested deeper"):
        plain(item)
