"""Items and other instances of the project's classes in meta and cb_kwargs: they come back as what they were, or are refused by name."""

from __future__ import annotations

import dataclasses
import enum
import http
import sys
import types
import typing
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import attrs
import lxml.html
import markupsafe
import msgspec
import pydantic
import pytest
import scrapy
from scrapy.http.headers import Headers
from scrapy.settings import Settings

from silkline.errors import ConfigError
from silkline.scrapy.convert.classes import StoredObject, UnstorableValue, UnusableRequest, load_classes
from silkline.scrapy.convert.slots import AutomaticSlot
from silkline.scrapy.convert.values import pack, unpack

ran = []


class Product(scrapy.Item):
    name = scrapy.Field()
    price = scrapy.Field()

    def __init__(self, *args, **kwargs):
        ran.append("Product")
        super().__init__(*args, **kwargs)


@dataclasses.dataclass
class Offer:
    name: str
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        ran.append("Offer")


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(slots=True)
class Derived(Offer):
    extra: int = 5


@attrs.define
class Seller:
    name: str
    age: int = attrs.field(default=3)

    def __attrs_post_init__(self):
        ran.append("Seller")


@attrs.frozen(cache_hash=True)
class Key:
    name: str


@attrs.define(slots=False, frozen=True, cache_hash=True)
class LooseKey:
    name: str


@attrs.define(slots=False)
class Loose:
    name: str


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    number: int = pydantic.Field(default=1, alias="no")
    _secret: int = pydantic.PrivateAttr(default=7)

    @pydantic.field_validator("name")
    @classmethod
    def check(cls, value):
        ran.append("Model")
        return value


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - people use both


class Triple(typing.NamedTuple):
    a: int
    b: str = "x"
    c: tuple = ()


class Outer:
    class Inner(scrapy.Item):
        name = scrapy.Field()


class Money(float):
    """A number with an attribute, as in many projects."""

    def __new__(cls, amount, currency="EUR"):
        ran.append("Money")
        return super().__new__(cls, amount)

    def __init__(self, amount, currency="EUR"):
        self.currency = currency

    def __repr__(self):
        return f"{float(self)} {getattr(self, 'currency', '?')}"


class Sku(str):
    __slots__ = ("shop",)


class Digest(bytes): ...


class Count(int): ...


def sku(text, shop):
    made = Sku(text)
    made.shop = shop
    return made


def item(**values):
    made = Product()
    made.update(values)
    return made


VALUES = [
    item(name="Lamp", price=datetime(2026, 1, 2, tzinfo=UTC)),
    item(),
    item(name={"nested": [item(name="inner"), Offer("x", [Pair(1, 2)])]}),
    Outer.Inner(name="deep"),
    Offer("x", ["a", {"b"}]),
    Point(1, 2),
    Derived("x", [], 7),
    Seller("x", 4),
    Key("x"),
    LooseKey("x"),
    Loose("x"),
    Model(name="x", no=5, further=[1]),
    Model(name="x"),
    Color.RED,
    Color.PAIR,
    Level.LOW,
    Word.YES,
    Right.READ | Right.WRITE,
    http.HTTPStatus.NOT_FOUND,
    Pair(1, "b"),
    Triple(1, "y", (2,)),
    urlsplit("https://a.example/x?y"),
    defaultdict(list, {"a": [1]}),
    defaultdict(None, {1: 2}),
    Counter("abca"),
    OrderedDict([("z", 1), ("a", Color.RED)]),
    deque([1, 2, 3], maxlen=3),
    {Color.RED: Point(1), Point(1): {Level.LOW}},
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001
    datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=2))),
    time(2, 30, tzinfo=ZoneInfo("Asia/Tokyo")),
    Money(2.5, "CHF"),
    Sku("plain"),
    Digest(b"\xff"),
    Count(2**70),
    [Money(1), Count(1)],
    markupsafe.Markup("<b>"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_an_instance_comes_back_as_what_it_was(value):
    stored = msgspec.msgpack.encode(pack({"item": value, "again": [value]}, "meta"))
    ran.clear()
    again = unpack(msgspec.msgpack.decode(stored))
    assert again == {"item": value, "again": [value]}
    assert type(again["item"]) is type(value)
    assert repr(again["item"]) == repr(value)
    assert ran == [], "no code of a class runs"


def test_what_equality_does_not_see_comes_back_too():
    model = Model(name="x")
    model._secret = 8
    assert unpack(pack(model, "meta"))._secret == 8
    assert unpack(pack(model, "meta")).model_fields_set == {"name"}
    kept = unpack(pack(defaultdict(list), "meta"))
    kept["new"].append(1)
    assert kept == {"new": [1]}
    zoned = unpack(pack(datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")), "meta"))
    assert zoned.tzinfo is ZoneInfo("Europe/Berlin")
    assert unpack(pack(datetime(2026, 10, 25, 2, 30, fold=1), "meta")).fold == 1  # noqa: DTZ001
    kept = unpack(pack(sku("a", Pair("x", 1)), "meta"))
    assert (type(kept), kept, kept.shop) == (Sku, "a", Pair("x", 1))
    offer = Offer("x")
    offer.note = "set later"
    assert unpack(pack(offer, "meta")).note == "set later"


@pytest.mark.parametrize("kind", [Key, LooseKey])
def test_the_hash_of_another_process_is_not_taken_over(kind):
    key = kind("x")
    hash(key)
    assert b"hash" not in msgspec.msgpack.encode(pack(key, "meta")).replace(b"_attrs_cached_hash\xc0", b"")
    assert {unpack(pack(key, "meta")): 1} == {key: 1}


class Bag(dict):
    pass


@dataclasses.dataclass
class Rows(list):
    name: str = ""


class Berlin(tzinfo):
    def utcoffset(self, _):
        return timedelta(hours=1)


def local_class():
    @dataclasses.dataclass
    class Local:
        x: int

    return Local(1)


def local_string():
    class LocalString(str):
        __slots__ = ()

    return LocalString("x")


def with_attribute():
    made = item(name="x")
    made._note = 1
    return made


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (Bag(a=1), r"meta\['v'\]: a .*Bag cannot be stored"),
        (Headers({"a": "b"}), r"meta\['v'\]: a scrapy.http.headers.Headers cannot be stored"),
        (Rows("x"), r"meta\['v'\]: a .*Rows cannot be stored"),
        (local_class(), r"meta\['v'\]: its class .*Local cannot be found by this name; define it at the top level"),
        (defaultdict(lambda: 1), r"meta\['v'\]: a defaultdict whose default_factory is '<lambda>' cannot be stored"),
        (
            datetime(2026, 1, 1, tzinfo=Berlin()),
            r"meta\['v'\]: its time zone, a .*Berlin, cannot be stored; use zoneinfo",
        ),
        (with_attribute(), r"meta\['v'\]: a Product with the attribute '_note'"),
        (item(name=scrapy.Selector(text="x")), r"meta\['v'\]\['name'\]: a .*Selector cannot be stored"),
        (local_string(), r"meta\['v'\]: its class .*LocalString cannot be found by this name"),
        (types.SimpleNamespace(a=1), r"meta\['v'\]: a types.SimpleNamespace cannot be stored"),
    ],
)
def test_what_cannot_come_back_the_same_is_refused_by_name(value, sentence):
    with pytest.raises(UnstorableValue, match=sentence):
        pack({"v": value}, "meta")


def test_strings_that_know_where_they_are_from_come_back_as_strings():
    smart = lxml.html.fromstring("<a href=/x>link</a>").xpath("//a/text()")[0]
    assert smart.getparent() is not None
    slot = AutomaticSlot("a.example")
    soup = type("NavigableString", (str,), {"__module__": "bs4.element"})("text")
    soup.parent = object()
    for value in (smart, slot, soup):
        assert type(unpack(pack(value, "meta"))) is str
        assert unpack(pack(value, "meta")) == value


def made(kind, path, content):
    return unpack(pack(StoredObject(kind, path, content), "meta"))


@pytest.mark.parametrize(
    ("kind", "path", "content", "sentence"),
    [
        ("o", "subprocess.Popen", {"args": ["true"]}, "is not a class whose instances Silkline stores"),
        ("e", "os.system", "touch /nonexistent/x", "is not a class whose instances"),
        ("e", "builtins.eval", "1", "is not a class whose instances"),
        ("e", f"{__name__}.Product", {}, "is not a class whose instances"),
        ("o", f"{__name__}.Color", {}, "is not a class whose instances"),
        ("o", "nowhere.Product", {}, r"SILKLINE_CLASSES = \['nowhere.Product'\]"),
        ("o", f"{__name__}.Product.name", {}, "not imported in this process"),
        ("o", f"{__name__}.Product.__init__.__globals__", {}, "not imported|is not a class"),
        ("o", 7, {}, "7 is not imported"),
        ("e", f"{__name__}.Color", "blue", "'blue' is not a valid Color"),
        ("a", f"{__name__}.Color", ["__class__"], "cannot be created from the stored request: '__class__'"),
        ("a", f"{__name__}.Color", [], "cannot be created"),
        ("a", f"{__name__}.Product", ["name"], "is not a class whose instances"),
        ("a", "os.environ", ["x"], "is not a class whose instances"),
        ("n", f"{__name__}.Pair", [1], "it has 2 fields, and 1 are stored"),
        ("n", f"{__name__}.Pair", 5, "cannot be created"),
        ("o", f"{__name__}.Point", {"z": 1}, "cannot be created from the stored request: .*z"),
        ("o", f"{__name__}.Point", {5: 1}, "its fields are not stored by name"),
        ("o", f"{__name__}.Point", 5, "its fields are not stored by name"),
        ("o", f"{__name__}.Product", [1], "its fields are not stored by name"),
        ("b", f"{__name__}.Money", ["2.5"], "it needs a value of the type float"),
        ("b", f"{__name__}.Money", [2.5, {}, {}], "it needs a value of the type float"),
        ("b", f"{__name__}.Money", [2.5, [1]], "its fields are not stored by name"),
        ("b", f"{__name__}.Money", 5, "cannot be created"),
        ("b", f"{__name__}.Sku", ["a", {"other": 1}], "cannot be created"),
        ("b", f"{__name__}.Product", ["a"], "is not a class whose instances"),
        ("b", "builtins.bool", [1], "is not a class whose instances"),
        ("b", "builtins.str", ["a"], "is not a class whose instances"),
    ],
)
def test_stored_data_chooses_only_among_classes_of_items(kind, path, content, sentence):
    ran.clear()
    with pytest.raises(UnusableRequest, match=sentence):
        made(kind, path, content)
    assert ran == []


@pytest.mark.parametrize(
    "damaged",
    [
        ["date", "x"], ["Decimal", "x"], ["set", [[1]]], ["deque", 5], ["defaultdict", ["os.system"]], ["o", []],
        ["o", 5], ["Counter", [1]], ["datetime", ["2026-01-01T00:00:00", "Nowhere/City", 0]], ["UUID", 5],
        ["datetime", ["2026-01-01T00:00:00", "../../etc/passwd", 0]], ["dict", [[[], 1]]],
    ],
)  # fmt: skip
def test_damaged_values_make_a_request_unusable_and_nothing_else(damaged):
    with pytest.raises(UnusableRequest, match="cannot be read"):
        unpack({"\x00": damaged})


def test_a_class_that_is_imported_late_is_named_in_the_settings(tmp_path, monkeypatch):
    (tmp_path / "late_items.py").write_text(
        "import scrapy\nclass Late(scrapy.Item):\n    a = scrapy.Field()\nclass No: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnusableRequest, match=r"SILKLINE_CLASSES = \['late_items.Late'\]"):
        made("o", "late_items.Late", {"a": 1})
    assert "late_items" not in sys.modules
    load_classes(Settings({"SILKLINE_CLASSES": ["late_items.Late"]}))
    assert made("o", "late_items.Late", {"a": 1})["a"] == 1
    with pytest.raises(ConfigError, match=r"late_items\.No, which is neither a subclass"):
        load_classes(Settings({"SILKLINE_CLASSES": ["late_items.No"]}))
