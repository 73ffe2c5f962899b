import encodings
import time

import pytest

from silkline.fetch.charset import charset_of, decode


@pytest.mark.parametrize(
    ("header", "body", "codec"),
    [
        ("text/html; charset=ISO-8859-1", b"", "cp1252"),
        ('text/html; charset="utf-8"', b"", "utf-8"),
        ("text/html;CHARSET=shift_jis", b"", "cp932"),
        ("", b"<html><head><meta charset=gb2312>", "gb18030"),
        ("", b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "cp1251"),
        ("", b'<?xml version="1.0" encoding="koi8-r"?>', "koi8-r"),
        ("text/html; charset=utf-8", b"\xff\xfea\x00", "utf-16-le"),
        ("", b"\xef\xbb\xbfa", "utf-8"),
        ("text/html; charset=nonsense", b"plain", "utf-8"),
        ("text/html; charset=zlib", b"plain", "utf-8"),
        ("text/html; charset=hex", "é".encode(), "utf-8"),
        ("", "é".encode("latin-1"), "cp1252"),
        ("", b"<meta charset=utf-16>", "utf-8"),
        ("", b"", "utf-8"),
        ("text/html; charset=iso-8859-9", b"", "cp1254"),
        ("text/html; charset=x-user-defined", b"", "cp1252"),
        ("text/html; charset=l2", b"", "iso8859-2"),
        ("text/html; charset = 'koi8-u'", b"", "koi8-u"),
        ("text/html; charset=no-such", b"<meta charset=euc-jp>", "euc_jp"),
        ("text/html; charset=" + "x" * 60_000, "é".encode("latin-1"), "cp1252"),
    ],
)
def test_a_page_is_read_as_a_browser_reads_it(header, body, codec):
    assert charset_of(header, body) == codec


def test_whatever_is_in_the_body_becomes_text():
    assert decode(b"\xef\xbb\xbfabc", "utf-8") == "abc"
    assert decode(b"a\xffb", "utf-8") == "a\ufffdb"
    assert decode(bytes(range(256)), "cp1252")


@pytest.mark.parametrize(
    "label", ["punycode", "idna", "undefined", "utf-7", "unicode_escape", "rot13", "mbcs", "cp037", "os.system"]
)
def test_a_codec_of_python_that_no_browser_knows_is_not_used(label):
    assert charset_of(f"text/html; charset={label}", b"<p>") == "utf-8"
    assert charset_of("text/html", f"<meta charset={label}>".encode()) == "utf-8"


def test_an_unknown_label_leaves_nothing_behind():
    """Python keeps every name of a codec that it was ever asked for."""
    before = len(encodings._cache)
    for number in range(100):
        charset_of(f"text/html; charset=no-such-{number}", f"<meta charset=nor-this-{number}>".encode())
    assert len(encodings._cache) == before


def test_bytes_without_a_meaning_are_read_as_browsers_read_them():
    assert decode(b"\x81\x93", "cp1252") == "\x81\u201c"
    assert decode(b"\xff\xc7", "iso8859-6") == "\ufffd\u0627"
    assert decode(b"\x80\xff", "cp874") == "\u20ac\ufffd"


def seconds(function, *arguments):
    """CPU, the least of three."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        function(*arguments)
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.parametrize("codec", ["iso8859-6", "cp874", "cp1253", "utf-8", "gb18030", "iso2022_jp", "cp932"])
def test_bytes_without_a_meaning_take_no_longer_than_others(codec):
    """One call for each of them took a thousand times as long as a letter."""
    assert seconds(decode, b"\xff" * 500_000, codec) < 50 * seconds(decode, b"a" * 500_000, codec) + 0.05


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("text/html; charset=" + " " * 20_000 + ";", b""),
        ("", b"<meta" * 20 + b" charset=" + b" " * 3_900 + b";"),
        ("", b"<?xml" * 20 + b" encoding=" + b" " * 3_900 + b";"),
        ("charset=" * 8_000, b"<meta charset " * 300),
    ],
    ids=["header", "meta", "xml", "repeats"],
)
def test_nothing_that_a_page_declares_takes_long_to_read(header, body):
    """Spaces that could be matched in two ways took many seconds."""
    assert seconds(charset_of, header, body) < 0.5
