"""Which encoding a page is in: what it says of itself, read as browsers read it."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_IN_META = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_IN_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_PRESCAN = 4_096

_AS_BROWSERS_DO = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "utf-16": "utf-16-le",
}
"""Labels that mean something wider on the web than their names say."""


def charset_of(content_type: str, body: bytes) -> str:
    """The Python codec for *body*: by its byte order mark, its header, its own words, or by trial."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name
    said = _IN_HEADER.search(content_type)
    codec = _codec(said.group(1)) if said else None
    return codec or _said_inside(body[:_PRESCAN]) or _by_trial(body)


def decode(body: bytes, codec: str) -> str:
    """Text, whatever is in the body: bytes that mean nothing become replacement characters."""
    return body.decode(codec, "replace").removeprefix("\ufeff")


def _said_inside(start: bytes) -> str | None:
    said = _IN_META.search(start) or _IN_XML.search(start)
    if not said:
        return None
    codec = _codec(said.group(1).decode("ascii", "replace"))
    return "utf-8" if codec and codec.startswith("utf-16") else codec  # it could not have been read else


def _by_trial(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


@lru_cache(200)
def _codec(label: str) -> str | None:
    try:
        found = codecs.lookup(label.strip().lower())
    except (LookupError, ValueError):
        return None
    if not found._is_text_encoding:  # noqa: SLF001 - "hex" and "zlib" are codecs too, and a page may name them
        return None
    return _AS_BROWSERS_DO.get(found.name, found.name)
