"""OUT: which sink it names, what is refused, and what is never said aloud."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from silkline.core.errors import ConfigError
from silkline.sinks import open_sink, sink
from silkline.sinks.destination import SHAPES, read_out


@pytest.mark.parametrize(
    ("out", "kind", "url"),
    [
        ("-", "stdout", "standard output"),
        ("stdout", "stdout", "standard output"),
        ("-?key=true", "stdout", "-"),
        ("a/books.jsonl", "jsonl", "a/books.jsonl"),
        ("BOOKS.NDJSON", "jsonl", "BOOKS.NDJSON"),
        ("books.jsonl.gz?key=true", "gzip", "books.jsonl.gz"),
        ("books.ndjson.zst", "zstd", "books.ndjson.zst"),
        ("books.csv", "csv", "books.csv"),
        ("books.parquet", "parquet", "books.parquet"),
        ("sqlite:///books.db", "sqlite", "books.db"),
        ("sqlite:////data/my%20books.db?table=b", "sqlite", "/data/my books.db"),
        ("postgresql://u:p@h/db?table=b&sslmode=require", "postgres", "postgresql://u:p@h/db?sslmode=require"),
        ("postgres://h/db", "postgres", "postgres://h/db"),
        ("s3://bucket/a/b?endpoint=http://x", "objects", "s3://bucket/a/b"),
        ("gs://bucket", "objects", "gs://bucket"),
        ("az://container/x", "objects", "az://container/x"),
        ("file:///data/x", "folder", "file:///data/x"),
        ("redis:books:new", "redis", "books:new"),
        ("redis:books?type=stream", "redis", "books"),
        ("redis://h:1/2?key=books", "redis", "books"),
    ],
)
def test_the_shape_names_the_kind(out, kind, url):
    destination = read_out(out)
    assert (destination.kind, destination.url) == (kind, url)


def test_a_server_of_its_own_may_be_named():
    destination = read_out("redis://h:1/2?key=books&type=stream&socket_timeout=2", "redis://other")
    assert destination.server == "redis://h:1/2?socket_timeout=2"
    assert destination.options == {"type": "stream"}
    assert read_out("redis:books", "redis://other").server == "redis://other"


@pytest.mark.parametrize(
    "out", ["", "books", "books.json", "ftp://x/y", ".jsonl", "redis:", "s3://", "a.csv.gz", "?key=1"]
)
def test_an_unknown_shape_is_refused_with_those_that_are_known(out):
    with pytest.raises(ConfigError) as refused:
        open_sink(out)
    assert SHAPES in str(refused.value)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("books.jsonl?keys=true", r"books\.jsonl has no option keys; it knows key"),
        ("books.parquet?key=true", "has no option key; it has none"),
        ("books.jsonl?key=maybe", "key of books.jsonl is true or false, got 'maybe'"),
        ("sqlite://books.db", "sqlite:///books.db"),
        ("sqlite:///", "a SQLite file is written"),
        ("sqlite:///x.db?table=", "cannot be called ''"),
        ("sqlite:///x.db?table=sqlite_x", "cannot be called"),
        ("postgresql://h/d?table=", "cannot be called ''"),
        ("redis://h", r"needs a key to write to: add \?key=NAME"),
        ("redis:k", "needs a server"),
        ("redis:k?type=set", "list or stream, got 'set'"),
        ("s3://bucket/x?nonsense=1", "nonsense"),
        ("postgresql://h/d?nonsense=1", "nonsense"),
    ],
)
def test_nonsense_is_refused(out, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        open_sink(out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "package", "extra"),
    [
        ("a.parquet", "pyarrow", "parquet"),
        ("postgresql://h/d", "psycopg", "postgres"),
        ("s3://bucket/x", "obstore", "s3"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(out, package, extra, tmp_path):
    program = f"import sys; sys.modules[{package!r}] = None\nfrom silkline.sinks import open_sink\nopen_sink({out!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert f"needs the package {package}: pip install 'silkline[{extra}]'" in done.stderr.splitlines()[-1]


def test_only_what_is_asked_for_is_imported(tmp_path):
    program = (
        "import sys; from silkline.sinks import open_sink; open_sink('a.jsonl')\n"
        "print(*{'pyarrow', 'psycopg', 'obstore', 'sqlite3'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert set(done.stdout.split()) <= {"sqlite3"}  # the overflow of the frontier has it


def test_every_kind_has_its_module():
    assert {path.stem for path in Path(sink.__file__).parent.glob("*.py")} >= set(sink._MODULES.values())


@pytest.mark.parametrize(
    "out",
    [
        "postgresql://me:hush@127.0.0.1:1/db?password=hush&table=x",
        "s3://bucket/x?secret_access_key=hush-hush&endpoint=http://127.0.0.1:1&access_key_id=hush-hush&region=x",
        "redis://me:hush@127.0.0.1:1/0?key=books",
        "ftp://me:hush@h/x?password=hush",
    ],
)
def test_no_password_is_said(out):
    assert "hush" not in repr(read_out(out)) if not out.startswith("ftp") else True
    with pytest.raises(Exception, match=r".") as refused:
        open_sink(out)
    assert "hush" not in str(refused.value)
