"""OUT: which sink it names, what is refused, and what is never said aloud."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from silkline.errors import ConfigError
from silkline.sinks import open_sink, sink
from silkline.sinks.destination import SHAPES, read_out, without_secrets


@pytest.mark.parametrize(
    ("out", "kind", "url"),
    [
        ("-", "stdout", "standard output"),
        ("stdout", "stdout", "standard output"),
        ("-?key=true", "stdout", "-"),
        ("a/books.jsonl", "jsonl", "a/books.jsonl"),
        ("books.json", "json", "books.json"),
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
    "out", ["", "books", "books.xml", ".json", "ftp://x/y", ".jsonl", "redis:", "s3://", "a.csv.gz", "?key=1"]
)
def test_an_unknown_shape_is_refused_with_those_that_are_known(out):
    with pytest.raises(ConfigError) as refused:
        open_sink(out)
    assert SHAPES in str(refused.value)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("books.jsonl?keys=true", r"books\.jsonl has no option keys; supported: key"),
        ("books.parquet?key=true", "has no option key; it supports none"),
        ("books.jsonl?key=maybe", "the option key of books.jsonl must be true or false, got 'maybe'"),
        ("sqlite://books.db", "sqlite:///books.db"),
        ("sqlite:///", "a SQLite output must be"),
        ("sqlite:///x.db?table=", "'' is not a valid name"),
        ("sqlite:///x.db?table=sqlite_x", "is not a valid name"),
        ("postgresql://h/d?table=", "'' is not a valid name"),
        ("redis://h", r"needs the key of a list or stream: add \?key=NAME"),
        ("redis:k", "needs the address of a server"),
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
    folder = Path(sink.__file__).parent
    assert [name for name in sink._MODULES.values() if not (folder / f"{name.replace('.', '/')}.py").is_file()] == []


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


@pytest.mark.parametrize(
    ("out", "public", "hidden"),
    [
        (
            "postgresql://me:p%40ss@host/db?table=t&sslmode=require",
            "postgresql://me@host/db?table=t&sslmode=require",
            1,
        ),
        ("postgresql://host/db?user=me&password=geheim", "postgresql://host/db?user=me", 1),
        ("postgresql://me:geheim?x@host/db", "postgresql://", 1),
        ("s3://b/p?aws_secret_access_key=geheim&region=eu&key=true", "s3://b/p?region=eu&key=true", 1),
        ("s3://b/p?aws_access_key_id=geheim&aws_session_token=geheim", "s3://b/p", 2),
        ("az://c/p?sas_token=geheim&account_name=me", "az://c/p?account_name=me", 1),
        ("s3://b/p?endpoint=https://me:geheim@host", "s3://b/p", 1),
        ("redis://:geheim@host:6379/0?key=items&type=stream", "redis://host:6379/0?key=items&type=stream", 1),
        ("redis:items?type=stream", "redis:items?type=stream", 0),
        ("/data/items.jsonl?key=true", "/data/items.jsonl?key=true", 0),
        ("sqlite:////data/a b.db?table=t", "sqlite:////data/a%20b.db?table=t", 0),
        ("-", "-", 0),
    ],
)
def test_what_is_stored_with_a_crawl_holds_no_secret(out, public, hidden):
    told = without_secrets(out)
    assert told.out == public
    assert len(told.hidden) == hidden
    assert "geheim" not in repr(told)


def test_the_path_of_a_file_is_stored_as_an_absolute_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert without_secrets("items.csv").out == str(tmp_path / "items.csv")
    assert without_secrets("sqlite:///items.db").out == f"sqlite:///{tmp_path}/items.db"
