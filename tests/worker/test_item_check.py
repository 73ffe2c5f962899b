"""Typed items are checked on demand, and the report counts the pages on which a field failed."""

from __future__ import annotations

import dataclasses
from datetime import date
from decimal import Decimal
from pathlib import Path

import attrs
import msgspec
import pydantic
import pytest

from silkline.errors import InvalidItem
from silkline.worker.item_check import ItemChecker, fields_of


class Offer(msgspec.Struct, rename="camel"):
    list_price: float
    valid_from: date | None = None


@dataclasses.dataclass(slots=True)
class Product:
    name: str
    price: Decimal = Decimal(1)
    offers: list[Offer] = dataclasses.field(default_factory=list)


@attrs.define
class Shop:
    name: str


@attrs.define
class Shops:
    first: str
    second: str


class Model(pydantic.BaseModel):
    name: str
    price: float


GOOD = [
    {"price": "x"}, Offer(7, date(2026, 1, 2)), Product("Emma", Decimal("7.5"), [Offer(1.5)]), Shop("a"), Model(name="a", price=1),
]  # fmt: skip
BAD = [
    (Offer("7"), "Offer.listPrice", "Expected `float`, got `str`"),
    (Product(None), "Product.name", "Expected `str`, got `null`"),
    (Product("a", offers=[Offer(1), Offer(None)]), "Product.offers[].listPrice", "Expected `float`, got `null`"),
    (Shop(7), "Shop.name", "Expected `str`, got `int`"),
]


def test_items_with_the_right_types_pass():
    ItemChecker().check(GOOD)


@pytest.mark.parametrize(("item", "field", "words"), BAD)
def test_a_field_of_another_type_is_named(item, field, words):
    with pytest.raises(InvalidItem) as raised:
        ItemChecker().check([*GOOD, item])
    assert str(raised.value) == f"{field}: {words}"
    assert fields_of(raised.value) == [field]


@pytest.mark.parametrize(
    ("item", "fields"),
    [
        (
            Product(None, "x", [Offer("7"), Offer(None)]),
            ("Product.name", "Product.price", "Product.offers[].listPrice"),
        ),
        (Offer("7", "never"), ("Offer.listPrice", "Offer.validFrom")),
        (Shops(1, 2), ("Shops.first", "Shops.second")),
    ],
)
def test_all_fields_of_an_item_that_fail_are_named(item, fields):
    with pytest.raises(InvalidItem) as raised:
        ItemChecker().check([item])
    assert raised.value.fields == fields


class Refused(msgspec.Struct):
    low: int
    high: int

    def __post_init__(self):
        if self.low > 5:
            raise ValueError("low is above 5")


def test_what_no_field_is_at_fault_for_is_named_after_the_class():
    item = Refused(1, 2)
    item.low = 9
    with pytest.raises(InvalidItem) as raised:
        ItemChecker().check([item])
    assert str(raised.value) == "Refused: low is above 5"


def test_all_fields_of_a_page_are_named_once():
    with pytest.raises(InvalidItem) as raised:
        ItemChecker().check([item for item, *_ in BAD] * 2)
    assert raised.value.fields == tuple(field for _, field, _ in BAD)


def test_the_fields_of_a_pydantic_model_are_named():
    with pytest.raises(pydantic.ValidationError) as raised:
        Model(price="x")
    assert fields_of(raised.value) == ["Model.name", "Model.price"]
    assert fields_of(ValueError()) == fields_of(InvalidItem("no field")) == []


def test_a_class_that_cannot_be_checked_is_logged_once_and_passes(caplog):
    @dataclasses.dataclass
    class Odd:
        place: Path

    ItemChecker().check([Odd(Path("a")), Odd(Path("b"))])
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("items of the class Odd are not checked: ")


@pytest.mark.parametrize("checks", [True, False])
async def test_the_report_counts_the_pages_on_which_a_field_failed(run, serve, new_crawl, checks):
    site = await serve({f"/{number}": str(number) for number in range(6)})
    crawl = new_crawl([site.at(f"/{number}") for number in range(6)], check_items=checks)

    @crawl.handler
    def parse(page):
        number = int(page.text)
        if number == 5:
            Model(name="a", price="x")
        yield Product(None if number < 2 else "Emma", "x" if number == 2 else Decimal(1))

    done = await run(crawl)
    errors = {"Product.name": 2, "Product.price": 1} if checks else {}
    assert done.counters.errors == {**errors, "Model.price": 1}
    assert done.stats.done == len(done.items) == (2 if checks else 5)
    if checks:
        assert any(": Product.name: Expected `str`, got `null`" in letter.reason for letter in done.dead)
