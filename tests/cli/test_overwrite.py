"""``silkline run --overwrite``: the outputs start empty, and no item of a crawl that goes on is lost."""

from __future__ import annotations

import csv
import json
import sqlite3

import pytest
from pyarrow import parquet

from tests.cli.sites import chain, lines_of


@pytest.fixture
def run(silkline, valkey):
    def run_(*arguments, **options):
        return silkline("run", *arguments, "--redis", valkey.url, **options)

    return run_


def sqlite_paths(path):
    database = sqlite3.connect(path)
    try:
        return [path for (path,) in database.execute("SELECT path FROM items")]
    finally:
        database.close()


READ = {
    "items.jsonl": lambda path: [item["path"] for item in lines_of(path)],
    "items.json": lambda path: [item["path"] for item in json.loads(path.read_text())],
    "items.csv": lambda path: [row["path"] for row in csv.DictReader(path.read_text().splitlines())],
    "items.parquet": lambda path: parquet.read_table(path).column("path").to_pylist(),
    "items.db": sqlite_paths,
}
OUTS = [
    word
    for name in READ
    for word in ("-o", f"sqlite:///{name}" if name.endswith(".db") else name)
]  # fmt: skip


def paths(workplace):
    return {name: sorted(read(workplace / name)) for name, read in READ.items()}


def test_a_crawl_that_starts_over_overwrites_what_the_last_one_stored(run, site, write, workplace):
    first = write(site(chain(3)))
    assert run(first, *OUTS, "-q").code == 0
    assert paths(workplace) == {key: ["", "1", "2", "3"] for key in READ}
    second = write(site(chain(2)))
    answer = run(second, *OUTS, "--fresh", "--yes", "--overwrite", "--workers", "2")
    assert answer.code == 0, answer.err
    assert "overwriting items.jsonl, items.json, items.csv, items.parquet, sqlite:///items.db" in answer.err
    assert paths(workplace) == {key: ["", "1", "2"] for key in READ}


def test_a_new_crawl_overwrites_a_file_and_its_workers_do_not(run, site, write, workplace):
    (workplace / "items.json").write_text('[{"path": "old"}]')
    answer = run(write(site(chain(30))), "-o", "items.json", "-O", "--workers", "3")
    assert answer.code == 0, answer.err
    assert len(READ["items.json"](workplace / "items.json")) == 31


def test_a_crawl_that_is_continued_keeps_its_items(run, site, write, workplace):
    file = write(site(chain(3)))
    assert run(file, "-o", "items.json").code == 0
    before = (workplace / "items.json").read_bytes()
    answer = run(file, "-o", "items.json", "--overwrite")
    assert answer.code == 2
    assert "has 4 done; its done pages are not crawled again, so --overwrite would lose their items" in answer.err
    assert "To start over, add --fresh" in answer.err
    assert (workplace / "items.json").read_bytes() == before


def test_a_json_array_is_continued_by_the_next_run(run, site, write, workplace, silkline, valkey, crawl):
    here = site(chain(3, **{"/more": "<h1>more</h1>"}))
    file = write(here)
    assert run(file, "-o", "items.json").code == 0
    assert silkline("enqueue", crawl, f"{here.url}more", "--redis", valkey.url).code == 0
    assert run(file).code == 0
    assert sorted(READ["items.json"](workplace / "items.json")) == ["", "1", "2", "3", "more"]


@pytest.mark.parametrize(
    ("outs", "words"),
    [
        ([], "--overwrite needs an output: name it with -o"),
        (["-o", "redis:items"], "--overwrite cannot empty redis:items: it works for files and for tables in SQLite"),
        (["-o", "s3://bucket/books"], "--overwrite cannot empty s3://bucket/books"),
        (
            ["-o", "sqlite:///shop.db?table=products&key=sku"],
            "works for files and for tables in SQLite that Silkline created",
        ),
    ],
)
def test_what_cannot_be_emptied_is_said_before_anything_is_done(run, site, write, outs, words):
    answer = run(write(site({})), *outs, "--overwrite", "--fresh", "--yes")
    assert answer.code == 2
    assert words in answer.err
