import pytest

from silkline.core.charset import charset_of, decode


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
    ],
)
def test_a_page_is_read_as_a_browser_reads_it(header, body, codec):
    assert charset_of(header, body) == codec


def test_whatever_is_in_the_body_becomes_text():
    assert decode(b"\xef\xbb\xbfabc", "utf-8") == "abc"
    assert decode(b"a\xffb", "utf-8") == "a\ufffdb"
    assert decode(bytes(range(256)), "cp1252")
