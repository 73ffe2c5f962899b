"""Sitemaps, as sites write them and as attackers do."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from silkline.worker.crawl import sitemap as module
from silkline.worker.crawl.sitemap import MOST_URLS, BadSitemap, parse_sitemap, read_date

NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
IMAGE = 'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'


def urlset(*entries, head='<?xml version="1.0" encoding="UTF-8"?>', tag="urlset", inner="url", attributes=NS):
    inside = "".join(f"<{inner}>{entry}</{inner}>" for entry in entries)
    return f"{head}<{tag} {attributes}>{inside}</{tag}>"


def urls_of(body):
    return [entry.url for entry in parse_sitemap(body.encode() if isinstance(body, str) else body).entries]


def test_a_sitemap_has_urls_and_dates():
    body = urlset(
        "<loc> https://a.example/?a=1&amp;b=2 </loc><lastmod>2026-01-31</lastmod>",
        "<lastmod>2026</lastmod><image:image><image:loc>https://a.example/x.png</image:loc></image:image>"
        "<loc><![CDATA[https://a.example/2]]></loc>",
        "<priority>1</priority>",
        attributes=f"{NS} {IMAGE}",
    )
    utf16 = body.replace("UTF-8", "UTF-16").encode("utf-16")
    for packed in (body.encode(), gzip.compress(body.encode()), utf16):
        found = parse_sitemap(packed)
        assert [(entry.url, entry.lastmod) for entry in found.entries] == [
            ("https://a.example/?a=1&b=2", "2026-01-31"),
            ("https://a.example/2", "2026"),
        ]
        assert not found.is_index
        assert not found.damage


def test_an_index_and_one_without_a_namespace():
    body = urlset("<loc>https://a.example/1.xml</loc>", tag="sitemapindex", inner="sitemap", attributes="")
    found = parse_sitemap(body.encode())
    assert found.is_index
    assert found.entries[0].url == "https://a.example/1.xml"


def test_plain_text_has_a_url_per_line():
    assert urls_of("\ufeffhttps://a.example/1\r\n\r\nHTTPS://a.example/2\n") == [
        "https://a.example/1",
        "HTTPS://a.example/2",
    ]


BOMB = '<!DOCTYPE x [<!ENTITY a "x"><!ENTITY b "&a;&a;&a;&a;">]>'
EXTERNAL = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
PARAMETER = '<!DOCTYPE x [<!ENTITY % a SYSTEM "http://127.0.0.1:1/x"> %a;]>'
NO_SITEMAPS = {
    BOMB + urlset("<loc>&b;</loc>", head=""): "declares entities",
    EXTERNAL + urlset("<loc>&a;</loc>", head=""): "declares entities",
    PARAMETER + urlset("<loc>x</loc>", head=""): "declares entities",
    '<!DOCTYPE urlset [<!ATTLIST urlset a CDATA "x">]><urlset/>': "declares entities or other names",
    "<urlset>" + "<a>" * 101: "more than 100 nested elements",
    "<urlset " + " ".join(f'a{n}=""' for n in range(200_000)) + "/>": "a tag or comment of more than 1,000,000 bytes",
    "<html><body>404</body></html>": "begins with <html>",
    "<urlset><url><loc>x</url>": "XML is invalid",
    '<?xml version="1.0" encoding="what-99"?><urlset/>': "cannot be decoded|XML is invalid",
    "nothing here": "line 1 is no URL",
    "\x00\x01\x02" * 50: "XML is invalid",
    "<" + "a" * 1_000_000: "XML is invalid",
    "<a>" * 100_000: "begins with <a>",
}


@pytest.mark.parametrize(("body", "words"), NO_SITEMAPS.items(), ids=range(len(NO_SITEMAPS)))
def test_what_is_no_sitemap_is_refused_with_the_reason(body, words):
    with pytest.raises(BadSitemap, match=words):
        parse_sitemap(body.encode())


@pytest.mark.parametrize("body", ["", urlset()])
def test_one_without_urls_is_empty(body):
    assert urls_of(body) == []


def test_a_damaged_one_is_used_up_to_the_damage():
    whole = urlset(*(f"<loc>https://a.example/{number * 7919}</loc>" for number in range(5000))).encode()
    packed = gzip.compress(whole)
    for body in (whole[: len(whole) // 2], packed[: len(packed) // 2], packed + b"\x1f\x8bgarbage"):
        found = parse_sitemap(body)
        assert found.damage
        assert 1000 < len(found.entries) <= 5000


def test_it_is_bounded(monkeypatch):
    many = "\n".join(f"https://a.example/{number}" for number in range(MOST_URLS + 7))
    found = parse_sitemap(many.encode())
    assert (len(found.entries), found.left_out) == (MOST_URLS, 7)
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    found = parse_sitemap(gzip.compress(many.encode()))
    assert "expands to more than 10,000 bytes" in found.damage
    assert 300 < len(found.entries) < 500
    assert "has more than 10,000 bytes" in parse_sitemap(many.encode()).damage
    [entry] = parse_sitemap(urlset(f"<loc>https://a.example/{'x' * 9_000}</loc>").encode()).entries
    assert len(entry.url) <= module.LONGEST_TEXT


def test_a_sitemap_of_the_longest_size_that_the_protocol_permits_is_whole():
    """It says 50 MB, and means 52,428,800 bytes."""
    page = b"https://a.example/1\n"
    assert not parse_sitemap(page + b" " * (52_428_800 - len(page))).damage
    assert parse_sitemap(page + b" " * (52_428_801 - len(page))).damage


def test_a_bomb_needs_little_memory():
    bomb = gzip.compress(b"<urlset><url><loc>" + b"x" * 80 * 2**20, 1)
    tracemalloc.start()
    try:
        with pytest.raises(BadSitemap, match="expands to more than 52,428,800 bytes"):
            parse_sitemap(bomb)
        assert tracemalloc.get_traced_memory()[1] < 150 * 2**20
    finally:
        tracemalloc.stop()


def test_one_with_a_long_comment_is_used_up_to_it():
    found = parse_sitemap(urlset("<loc>https://a.example/1</loc>", f"<!-- {'x' * 2_000_000} -->").encode())
    assert [entry.url for entry in found.entries] == ["https://a.example/1"]
    assert "comment of more than 1,000,000 bytes" in found.damage


def test_many_lines_need_little_memory():
    body = b"https://a.example/\n" + b" \r\n" * 500_000
    tracemalloc.start()
    try:
        assert urls_of(body) == ["https://a.example/"]
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body)
    finally:
        tracemalloc.stop()


def test_dates_of_the_w3c_format():
    assert read_date("2026") == read_date("2026-01") == read_date("2026-01-01") == read_date("2026-01-01T00:00:00Z")
    assert read_date("2026-01-01T02:00+01:00") > read_date("2026-01-01T00:59Z")
    for text in ("", "yesterday", "2026-13-01", "9" * 40):
        assert read_date(text) is None
