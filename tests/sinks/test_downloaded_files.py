"""The stores of downloaded files: a folder and a real S3 API. Their names come from the content alone."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import zipfile

import obstore
import pytest
from obstore.store import from_url

from silkline.errors import ConfigError, LocalFailure
from silkline.sinks import Files
from silkline.sinks.downloads.extension import HEAD, extension_of
from silkline.sinks.downloads.store import UNFINISHED, Spool, open_store

LARGE = bytes(range(256)) * 4096 * 12  # 12 MiB: several parts of an upload


def keep(store, content, folder="", piece=300_000):
    spool = Spool(len(content), store)
    for start in range(0, len(content), piece):
        spool.add(content[start : start + piece])
        if spool.is_full:
            spool.write()
    try:
        return store.keep(spool, folder)
    finally:
        spool.discard()


def test_objects_are_complete_and_stored_once(s3):
    store = open_store(Files(s3.out(s3.create("downloads"), "a/b")))
    paths = [keep(store, content, "images") for content in (LARGE, b"", b"GIF89a...", LARGE)]
    digest = hashlib.sha256(LARGE).hexdigest()
    assert paths[0] == paths[3] == f"images/{digest[:2]}/{digest}.bin"
    store.close()
    config = {"endpoint": s3.endpoint, "access_key_id": "x", "secret_access_key": "x", "region": "us-east-1"}
    bucket = from_url("s3://downloads", config=config, client_options={"allow_http": True})
    found = {
        one["path"]: bytes(obstore.get(bucket, one["path"]).bytes()) for batch in obstore.list(bucket) for one in batch
    }
    assert found == {f"a/b/{path}": content for path, content in zip(paths, (LARGE, b"", b"GIF89a..."), strict=False)}


def test_a_bucket_that_is_not_there_is_a_failure_without_secrets(s3):
    store = open_store(Files(s3.out("no-such-bucket")))
    with pytest.raises(LocalFailure, match="s3://no-such-bucket/items cannot be written") as refused:
        keep(store, b"x")
    assert "hush" not in str(refused.value)
    store.close()


@pytest.mark.parametrize("to", ["ftp://a.example/x", "sqlite:///x.db", "postgresql://u:hush@a.example/x"])
def test_a_store_that_takes_no_files_is_refused_with_those_that_do(to):
    with pytest.raises(
        ConfigError, match=r"files cannot be stored in .*name a folder, or s3://, gs:// or az://"
    ) as refused:
        Files(to)
    assert "hush" not in str(refused.value)


def test_unfinished_files_of_processes_that_have_ended_are_deleted(tmp_path):
    folder = tmp_path / UNFINISHED
    folder.mkdir()
    (folder / "abandoned").write_bytes(b"part")
    with (folder / "in progress").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as a running process does
        store = open_store(Files(str(tmp_path)))
        keep(store, b"x")
        assert [path.name for path in folder.iterdir()] == ["in progress"]
    store.close()


def test_a_stored_file_that_was_cut_is_replaced(tmp_path):
    store = open_store(Files(str(tmp_path)))
    path = tmp_path / keep(store, b"content")
    path.write_bytes(b"con")
    assert tmp_path / keep(store, b"content") == path
    assert path.read_bytes() == b"content"
    store.close()


def zip_of(*names, first=None):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        if first:
            file.writestr("mimetype", first)
        for name in names:
            file.writestr(name, b"")
    return packed.getvalue()


CONTENTS = {
    "png": b"\x89PNG\r\n\x1a\n", "jpg": b"\xff\xd8\xff\xe0", "webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ", "avif": b"\x00\x00\x00 ftypavif",
    "mp4": b"\x00\x00\x00 ftypisom", "pdf": b"%PDF-1.7", "gz": gzip.compress(b"x"), "zip": zip_of("a.txt"),
    "docx": zip_of("[Content_Types].xml", "word/document.xml"), "xlsx": zip_of("[Content_Types].xml", "xl/workbook.xml"),
    "odt": zip_of(first="application/vnd.oasis.opendocument.text"), "epub": zip_of(first="application/epub+zip"),
    "svg": b'<?xml version="1.0"?>\n<svg xmlns="x">', "html": b"\xef\xbb\xbf <!DOCTYPE html><p>", "xml": b"<?xml version='1.0'?><rss/>",
    "json": b' {"a": 1}', "txt": "größe,preis\n1,2".encode(), "bin": b"\x00\x01\x02", "tar": bytes(257) + b"ustar\x0000",
}  # fmt: skip


@pytest.mark.parametrize("extension", CONTENTS)
def test_the_extension_is_found_in_the_content(extension):
    assert extension_of(CONTENTS[extension]) == extension


@pytest.mark.parametrize(
    ("content", "extension"), [(b"", "txt"), (b"x" + "é".encode() * HEAD, "txt"), (b"caf\xe9 au lait", "bin")]
)
def test_text_is_utf_8(content, extension):
    assert extension_of(content[:HEAD]) == extension
