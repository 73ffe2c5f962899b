"""What is stored in a place, read with other tools than ours: one dict per item, texts parsed where a table needs them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sqlite3
import sys
from pathlib import Path

import obstore
import psycopg
import pyarrow.parquet as pq
import redis
import zstandard
from obstore.store import from_url

from silkline.sinks.destination import read_out

csv.field_size_limit(sys.maxsize)


def items(place):
    if place.kind in _FILES:
        path = Path(place.out.partition("?")[0])
        return _FILES[place.kind](path.read_bytes()) if path.exists() else []
    return _OTHERS[place.kind](place)


def lines(data):
    text = data.decode()
    assert not text or text.endswith("\n")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _zstd(data):
    return lines(zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read())


def _csv(data):
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert all(len(row) == len(rows[0]) for row in rows)
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def _sqlite(place):
    destination = read_out(place.out)
    database = sqlite3.connect(destination.path)
    try:
        if not database.execute(
            "SELECT 1 FROM sqlite_master WHERE name = ?", (destination.options["table"],)
        ).fetchall():
            return []
        cursor = database.execute(f'SELECT * FROM "{destination.options["table"]}"')
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]
    finally:
        database.close()


def _postgres(place):
    destination = read_out(place.out)
    with psycopg.connect(destination.url) as connection:
        cursor = connection.execute(f'SELECT * FROM "{destination.options["table"]}"')
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def _s3(place):
    destination = read_out(place.out)
    store = from_url(destination.url, config=dict(destination.others), client_options={"allow_http": True})
    names = sorted(one["path"] for batch in obstore.list(store) for one in batch)
    return [item for name in names for item in lines(gzip.decompress(bytes(obstore.get(store, name).bytes())))]


def _folder(place):
    folder = Path(place.out.partition("?")[0].removeprefix("file://"))
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    return [item for path in sorted(folder.iterdir()) for item in lines(gzip.decompress(path.read_bytes()))]


def _redis(place):
    key = read_out(place.out).url
    with redis.Redis.from_url(place.redis) as client:
        if place.kind == "redis":
            return [json.loads(line) for line in client.lrange(key, 0, -1)]
        entries = [fields for _, fields in client.xrange(key)]
    return [
        {"_key": one[b"_key"].decode(), "_url": one[b"_url"].decode(), **json.loads(one[b"item"])} for one in entries
    ]


def _parquet(data):
    return pq.read_table(io.BytesIO(data)).to_pylist() if data else []


_FILES = {
    "jsonl": lines,
    "json": json.loads,
    "jsonl.gz": lambda data: lines(gzip.decompress(data)),
    "jsonl.zst": _zstd,
    "csv": _csv,
    "parquet": _parquet,
}
_OTHERS = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "s3": _s3,
    "folder": _folder,
    "redis": _redis,
    "stream": _redis,
}
