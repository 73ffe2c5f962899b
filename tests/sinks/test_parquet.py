"""Parquet: the spool, the merge, and who does it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from silkline.errors import ConfigError
from silkline.sinks import open_sink, parquet
from tests.sinks.making import record


def names(folder):
    return sorted(path.name for path in folder.iterdir())


async def test_columns_unite_over_all_items_and_runs(tmp_path):
    path = tmp_path / "books.parquet"
    for run, values in enumerate(([1, 2], [2.5], ["x"])):
        sink = open_sink(path)
        await sink.write([record(run * 10 + n, value=value, **{f"run{run}": [n]}) for n, value in enumerate(values)])
        await sink.close()
        kind = [pa.int64(), pa.float64(), pa.string()][run]
        assert pq.read_schema(path).field("value").type == kind
    table = pq.read_table(path)
    assert table.column("value").to_pylist() == ["1", "2", "2.5", "x"]
    assert table.column("run0").to_pylist() == ["[0]", "[1]", None, None]
    assert names(tmp_path) == ["books.parquet"]


async def test_row_groups_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 7)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 500)
    path = tmp_path / "books.parquet"
    for first in (0, 50):
        sink = open_sink(path)
        await sink.write([record(first + n, text="x" * n) for n in range(100)])
        await sink.close()
    found = pq.ParquetFile(path)
    sizes = [found.metadata.row_group(n).num_rows for n in range(found.num_row_groups)]
    assert max(sizes) <= 7
    assert min(sizes[-5:]) < 7
    assert sorted(found.read().column("n").to_pylist()) == list(range(150))
    found.close()


async def test_others_that_write_keep_the_spool_until_the_last_has_left(tmp_path):
    path = tmp_path / "books.parquet"
    first, second = open_sink(path), open_sink(path)
    await first.write([record(0)])
    await second.write([record(1)])
    await first.close()
    assert not path.exists()
    await second.write([record(2)])
    await second.close()
    assert pq.read_table(path).column("n").to_pylist() == [0, 1, 2]


async def test_finish_merges_also_while_others_are_there(tmp_path):
    path = tmp_path / "books.parquet"
    first, second = open_sink(path), open_sink(path)
    await first.write([record(0)])
    await first.finish()
    assert pq.read_table(path).num_rows == 1
    await second.write([record(1)])
    await second.close()
    await first.close()
    assert pq.read_table(path).num_rows == 2
    assert names(tmp_path) == ["books.parquet"]


def test_a_merge_that_is_interrupted_is_done_by_the_next_run(tmp_path, monkeypatch):
    path = tmp_path / "books.parquet"

    def interrupt(*_):
        raise KeyboardInterrupt

    writer = open_sink(path)._writer
    writer.write([record(0), record(1)])
    with monkeypatch.context() as broken:
        broken.setattr(parquet, "_table", interrupt)
        with pytest.raises(KeyboardInterrupt):
            writer.close()
    assert names(tmp_path) == ["books.parquet.spool"]
    writer = open_sink(path)._writer
    writer.write([record(1, again=True)])
    writer.close()
    assert pq.read_table(path).column("again").to_pylist() == [None, True]


def test_a_table_that_we_did_not_make_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("no table")
    for name in ("a", "b"):
        with pytest.raises(ConfigError, match="already exists"):
            open_sink(tmp_path / f"{name}.parquet")


async def test_a_crawl_without_items_leaves_nothing(tmp_path):
    sink = open_sink(tmp_path / "books.parquet")
    await sink.write([])
    await sink.finish()
    await sink.close()
    assert names(tmp_path) == []
