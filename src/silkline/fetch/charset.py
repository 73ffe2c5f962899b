"""The encoding of a page: its declaration, interpreted as browsers do.

Only the labels of the WHATWG Encoding Standard are accepted. Python has many more codecs, and a page must not choose among
them: some are quadratic (punycode), some raise (idna), and Python caches every name that it looks up.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Possessive quantifiers (*+): spaces are never tried in two ways, so a thousand of them cost a thousand steps.
_IN_HEADER = re.compile(r"charset\s*+=\s*+[\"']?+\s*+([^\s\"';,]{1,40})", re.IGNORECASE)
_IN_META = re.compile(rb"<meta[^>]{0,500}?charset\s*+=\s*+[\"']?+\s*+([\w.:-]{1,40})", re.IGNORECASE)
_IN_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*+=\s*+[\"']([\w.:-]{1,40})", re.IGNORECASE)
_PRESCAN = 4_096

# The Python codec for each encoding of the standard (https://encoding.spec.whatwg.org/#names-and-labels), with its labels.
# Some mean more on the web than their names: iso-8859-1 is windows-1252 there. The labels of "replacement", such as
# iso-2022-kr, are left out.
_LABELS: dict[str, str] = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso8859-6": (
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i "
        "iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
    ),
    "iso8859-7": (
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
        "iso_8859-7:1987 sun_eu_greek"
    ),
    "iso8859-8": (
        "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 "
        "iso_8859-8:1988 visual csiso88598i iso-8859-8-i logical"
    ),
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp1250": "cp1250 windows-1250 x-cp1250",
    "cp1251": "cp1251 windows-1251 x-cp1251",
    "cp1252": (
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 "
        "iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252 x-user-defined"
    ),
    "cp1253": "cp1253 windows-1253 x-cp1253",
    "cp1254": (
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
        "windows-1254 x-cp1254"
    ),
    "cp1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "cp1257": "cp1257 windows-1257 x-cp1257",
    "cp1258": "cp1258 windows-1258 x-cp1258",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk gb18030",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso2022_jp": "csiso2022jp iso-2022-jp",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": (
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949"
    ),
    "utf-16-be": "unicodefffe utf-16be",
    "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
}
_MULTIBYTE = {
    *("utf-8", "utf-16-be", "utf-16-le", "gb18030", "big5hkscs"),
    *("euc_jp", "iso2022_jp", "cp932", "cp949"),
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}


def codec_of(label: str) -> str | None:
    """Return the Python codec for a label of the standard; None if it has no such label."""
    return _CODECS.get(label.strip().lower())


_NAMES = {
    "utf-8": "UTF-8", "cp932": "Shift_JIS", "cp949": "EUC-KR", "euc_jp": "EUC-JP", "iso2022_jp": "ISO-2022-JP", "big5hkscs": "Big5",
    "mac-roman": "macintosh", "mac-cyrillic": "x-mac-cyrillic", "gb18030": "gb18030", "cp866": "IBM866",
}  # fmt: skip


def name_of(codec: str) -> str:
    """Return the name that the standard has for a Python codec."""
    if codec.startswith(("cp125", "cp874")):
        return codec.replace("cp", "windows-")
    return _NAMES.get(codec) or codec.replace("iso8859", "iso-8859").upper()


def charset_of(content_type: str, body: bytes) -> str:
    """Return the Python codec for *body*: by its byte order mark, its header, its own declaration, or by trial."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name
    declared = _IN_HEADER.search(content_type)
    codec = _CODECS.get(declared.group(1).lower()) if declared else None
    return codec or _declared_inside(body[:_PRESCAN]) or _by_trial(body)


def decode(body: bytes, codec: str) -> str:
    """Return the text of *body*; bytes that mean nothing become replacement characters."""
    if codec in _MULTIBYTE:
        return body.decode(codec, "replace").removeprefix("\ufeff")
    return codecs.charmap_decode(body, "replace", _charmap(codec))[0]


@lru_cache(64)
def _charmap(codec: str) -> str:
    """Return the character of each byte in a codec of one byte per character, as the standard has it.

    Python calls an error handler for every byte that means nothing in a codec: a second for two megabytes of them. A table
    in which they have a character costs nothing.
    """
    characters = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    for byte in range(0x80, 0xA0):
        if characters[byte] == "\ufffd":
            characters[byte] = chr(byte)
    return "".join(characters)


def _declared_inside(start: bytes) -> str | None:
    declared = _IN_META.search(start) or _IN_XML.search(start)
    if not declared:
        return None
    codec = _CODECS.get(declared.group(1).decode("ascii", "replace").lower())
    return "utf-8" if codec and codec.startswith("utf-16") else codec  # otherwise it could not have been read


def _by_trial(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"
