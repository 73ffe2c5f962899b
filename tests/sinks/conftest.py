"""Places that items can go to: real ones."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest

from silkline.sinks import open_sink
from tests.forking import Forker
from tests.sinks import reading, writing
from tests.sinks.postgres_server import PostgresServer
from tests.sinks.s3_server import S3Server

FILES = ("jsonl", "json", "jsonl.gz", "jsonl.zst", "csv")
UPSERTING = ("sqlite", "postgres", "parquet")
APPENDING = (*FILES, "folder", "s3", "redis", "stream")
_numbers = itertools.count()


@pytest.fixture(scope="session")
def forker():
    with Forker(*writing.KINDS) as forker:
        yield forker


@pytest.fixture(scope="session")
def postgres():
    server = PostgresServer()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def s3():
    server = S3Server().start()
    yield server
    server.stop()


class Place(NamedTuple):
    """An OUT, and what is stored there."""

    kind: str
    out: str
    redis: str | None = None

    def open(self):
        return open_sink(self.out, redis=self.redis)

    def items(self):
        return reading.items(self)

    @property
    def has_key(self):
        return "key=true" in self.out or self.kind in UPSERTING or self.kind == "stream"


@pytest.fixture
def place(request, tmp_path):
    """Names a new place of a kind."""

    def new(kind):
        number = next(_numbers)
        if kind in (*FILES, "parquet"):
            return Place(kind, f"{tmp_path}/items-{number}.{kind}" + "?key=true" * (kind != "parquet"))
        if kind == "sqlite":
            return Place(kind, f"sqlite:///{tmp_path}/items-{number}.db?table=things")
        if kind == "folder":
            return Place(kind, f"file://{tmp_path}/batches-{number}?key=true")
        if kind == "postgres":
            return Place(kind, request.getfixturevalue("postgres").url(table=f"items_{number}"))
        if kind == "s3":
            s3 = request.getfixturevalue("s3")
            return Place(kind, s3.out(s3.create(f"bucket-{number}"), key="true"))
        option = "?key=true" if kind == "redis" else "?type=stream"
        return Place(kind, f"redis:items-{tmp_path.name}-{number}{option}", request.getfixturevalue("valkey").url)

    return new
