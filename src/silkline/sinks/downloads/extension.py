"""The extension of a file, found in its first bytes.

A site declares whatever it likes, so its names and types are not used: the same content always gets the same name.
"""

from __future__ import annotations

HEAD = 4096
"""First bytes of a file that are examined."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"), (b"BM", "bmp"),
    (b"II*\x00", "tif"), (b"MM\x00*", "tif"), (b"\x00\x00\x01\x00", "ico"), (b"\x00\x00\x00\x0cJXL ", "jxl"), (b"%PDF-", "pdf"),
    (b"%!PS", "ps"), (b"{\\rtf", "rtf"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"), (b"\x1f\x8b\x08", "gz"), (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a\x07", "rar"), (b"ID3", "mp3"),
    (b"\xff\xfb", "mp3"), (b"fLaC", "flac"), (b"OggS", "ogg"), (b"\x1aE\xdf\xa3", "mkv"), (b"FLV\x01", "flv"), (b"wOFF", "woff"),
    (b"wOF2", "woff2"), (b"\x00\x01\x00\x00\x00", "ttf"), (b"OTTO", "otf"), (b"SQLite format 3\x00", "sqlite"), (b"PAR1", "parquet"),
    (b"\x7fELF", "bin"), (b"MZ", "bin"),
)  # fmt: skip
_RIFF = {b"WEBP": "webp", b"WAVE": "wav", b"AVI ": "avi"}
_BRANDS = {
    b"avif": "avif",
    b"avis": "avif",
    b"heic": "heic",
    b"heix": "heic",
    b"mif1": "heic",
    b"qt  ": "mov",
    b"M4A ": "m4a",
}
_OFFICE = ((b"word/", "docx"), (b"xl/", "xlsx"), (b"ppt/", "pptx"))
_MIMETYPES = {
    b"application/epub+zip": "epub",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
}
_MARKUP = ((b"<svg", "svg"), (b"<!doctype html", "html"), (b"<html", "html"), (b"<?xml", "xml"))
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))


def extension_of(head: bytes) -> str:
    """Return the extension of a file that begins with *head*, ``txt`` for other text and ``bin`` if it is unknown."""
    if (found := next((name for start, name in _SIGNATURES if head.startswith(start)), None)) is not None:
        return found
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12], "bin")
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "mp4")
    if head[:4] == b"PK\x03\x04":
        return _kind_of_zip(head)
    if head[257:262] == b"ustar":
        return "tar"
    return _kind_of_text(head)


def _kind_of_zip(head: bytes) -> str:
    if head[30:38] == b"mimetype":
        return next((name for kind, name in _MIMETYPES.items() if head.startswith(kind, 38)), "zip")
    if b"[Content_Types].xml" in head:
        return next((name for part, name in _OFFICE if part in head), "zip")
    return "zip"


def _kind_of_text(head: bytes) -> str:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # else a character is cut
            return "bin"
    if head.translate(None, _CONTROLS) != head:
        return "bin"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for start, name in _MARKUP:
        if text.startswith(start):
            return "svg" if name == "xml" and b"<svg" in text else name
    return "json" if text[:1] in (b"{", b"[") else "txt"
