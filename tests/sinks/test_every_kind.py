"""What every kind of sink promises."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silkline.sinks import record_of
from silkline.sinks.columns import as_text
from tests.sinks.conftest import APPENDING, FILES, UPSERTING
from tests.sinks.making import PAGE

KINDS = (*APPENDING, *UPSERTING)
every_kind = pytest.mark.parametrize("kind", KINDS)


def records(*items, first=0):
    return [record_of(f"page-{first + number}", PAGE, item) for number, item in enumerate(items)]


@every_kind
async def test_what_was_written_is_there(kind, place):
    there = place(kind)
    sink = there.open()
    await sink.write(records({"title": "Emma", "pages": 474}, {"title": "Persuasion", "pages": 249}))
    await sink.write(records({"title": "Sanditon", "pages": None}, first=2))
    await sink.finish()
    await sink.close()
    found = sorted(there.items(), key=lambda item: item["_key"])
    assert [item["_key"] for item in found] == ["page-0", "page-1", "page-2"]
    assert [item["_url"] for item in found] == [PAGE] * 3
    assert [item["title"] for item in found] == ["Emma", "Persuasion", "Sanditon"]
    assert [item["pages"] or None for item in found] == (["474", "249", None] if kind == "csv" else [474, 249, None])


@every_kind
async def test_writes_at_the_same_time_do_not_mix(kind, place):
    there = place(kind)
    sink = there.open()
    batches = [records({"n": n}, {"n": n, "text": "x" * 5000}, first=n * 2) for n in range(20)]
    await asyncio.gather(*map(sink.write, batches))
    await sink.close()
    assert {item["_key"] for item in there.items()} == {f"page-{n}" for n in range(40)}


@every_kind
async def test_new_columns_appear_as_they_come(kind, place):
    there = place(kind)
    for run in range(3):
        sink = there.open()
        await sink.write(records({"n": run, f"only_{run}": "yes"}, first=run))
        await sink.close()
    found = {item["_key"]: item for item in there.items()}
    assert len(found) == 3
    for run in range(3):
        assert found[f"page-{run}"][f"only_{run}"] == "yes"
        assert not found[f"page-{run}"].get(f"only_{(run + 1) % 3}")


@pytest.mark.parametrize("kind", UPSERTING)
async def test_a_record_that_comes_again_replaces_itself(kind, place):
    there = place(kind)
    for run in range(3):
        sink = there.open()
        await sink.write(records({"n": run, "gone": "soon"} if run < 2 else {"n": run}, {"m": run}))
        await sink.write(records({"again": run}, first=1))
        await sink.close()
    found = sorted(there.items(), key=lambda item: item["_key"])
    assert [(item["_key"], item["n"], item["again"]) for item in found] == [("page-0", 2, None), ("page-1", None, 2)]
    assert [item["gone"] for item in found] == [None, None]


@pytest.mark.parametrize("kind", UPSERTING)
async def test_a_batch_may_hold_a_key_twice(kind, place):
    there = place(kind)
    sink = there.open()
    await sink.write([*records({"n": 1}), *records({"n": 2})])
    await sink.close()
    assert [item["n"] for item in there.items()] == [2]


HOSTILE = [
    "", " ", '"', "'; DROP TABLE items; --", '"); DROP TABLE items; --', "a\0b", "x" * 300, "é" * 100, "%s", "%(a)s", "?",
    "name", "Name", "NAME", "_key", "_KEY", "_url", "_more", "a.b", "a\nb", "a,b", "ctid", "rowid", "oid", "select", "{}", "💥",
]  # fmt: skip


@every_kind
async def test_no_name_of_a_field_does_harm(kind, place):
    there = place(kind)
    sink = there.open()
    item = {name: f"value {number}" for number, name in enumerate(HOSTILE)}
    await sink.write(records(item))
    await sink.write([record_of("page-1", PAGE, {name: value}) for name, value in list(item.items())[:1]])
    await sink.close()
    sink = there.open()
    await sink.write(records(item, first=2))
    await sink.close()
    for found in there.items():
        if found["_key"] != "page-1":
            assert sorted(set(found.values()) - {"page-0", "page-2", PAGE}) == sorted(item.values())


@pytest.mark.parametrize("kind", ["csv", *UPSERTING])
async def test_columns_are_not_without_end(kind, place):
    there = place(kind)
    sink = there.open()
    await sink.write(records({f"f{n}": n for n in range(1000)}))
    await sink.write(records({"f999": "x", "f1": 7}, first=1))
    await sink.close()
    first, second = sorted(there.items(), key=lambda item: item["_key"])
    assert len(first) <= 403
    more = first["_more"] if kind == "postgres" else json.loads(first["_more"])
    shown = {name: int(value) for name, value in first.items() if name.startswith("f")}
    assert {**shown, **more} == {f"f{n}": n for n in range(1000)}
    assert int(second["f1"]) == 7


MIXED = [1, 2.5, "007", True, [1, "x"], {"a": None}, None, 2**62 + 1, "1e5", "NaN", "", "x\0y", -0.25, False, "é", 3]


@pytest.mark.parametrize("kind", UPSERTING)
@pytest.mark.parametrize("start", range(0, len(MIXED), 3))
async def test_a_value_that_does_not_fit_its_column_is_kept(kind, start, place):
    there = place(kind)
    sink = there.open()
    values = MIXED[start:] + MIXED[:start]
    for number, value in enumerate(values):
        await sink.write(records({"value": value}, first=number))
    await sink.close()
    found = {item["_key"]: item["value"] for item in there.items()}
    for number, value in enumerate(values):
        assert same(found[f"page-{number}"], value), (value, found[f"page-{number}"])


def same(found, value):
    """As it was, or as text where its column had to become one; PostgreSQL has no NUL, and tables no minus zero."""
    if isinstance(found, Decimal):
        return float(found) == value or found == value
    if found is None or value is None or isinstance(value, str):
        return without_nul(found) == without_nul(value)
    return without_nul(parsed(found)) == without_nul(value)


def parsed(found):
    try:
        return json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return found


def without_nul(value):
    read = float if isinstance(value, list | dict) else int  # jsonb has one kind of number
    return json.loads(json.dumps(value).replace("\\u0000", "\\ufffd"), parse_int=read)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
rows = st.lists(st.dictionaries(st.text(max_size=70), values, max_size=4), min_size=1, max_size=4)


@every_kind
def test_any_item_comes_back(kind, place):
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batches=st.lists(rows, min_size=1, max_size=2))
    def check(batches):
        there = place(kind)
        asyncio.run(write_all(there, batches))
        found = {item.pop("_key"): item for item in there.items()}
        flat = [item for batch in batches for item in batch]
        assert len(found) == len(flat)
        for number, item in enumerate(flat):
            stored = found[f"page-{number}"]
            assert stored.pop("_url") == PAGE
            plain = record_of("", "", item).item
            for name, value in plain.items():
                assert is_stored(kind, stored, name, value)

    check()


async def write_all(there, batches):
    sink = there.open()
    first = 0
    for batch in batches:
        await sink.write(records(*batch, first=first))
        first += len(batch)
    await sink.close()


def is_stored(kind, stored, name, value):
    """Under its name, or under another one where the table cannot say it."""
    if kind == "csv":
        return name not in stored or stored[name] == (as_text(value) or "")
    if name not in stored:
        return value is None or any(same(found, value) for found in stored.values())
    return same(stored[name], value)


@pytest.mark.parametrize("kind", [*FILES, "parquet", "sqlite"])
async def test_an_output_can_be_emptied_while_another_process_writes_to_it(kind, place):
    there = place(kind)
    other = there.open()
    await other.write(records({"n": 1}, {"n": 2, "more": True}))
    sink = there.open()
    await sink.empty()
    await sink.close()
    await other.write(records({"n": 3}, first=5))
    await other.close()
    assert [item["_key"] for item in there.items()] == ["page-5"]
