"""What pages declare for machines, their tables, and the link to the next page."""

from __future__ import annotations

import pytest

from silkline.testing import page
from silkline.worker.crawl import reading

PRODUCT = """
<script type="application/ld+json">
{"@context": "https://schema.org", "@type": "Product", "name": "Emma\tby Austen",
 "offers": [{"@type": "Offer", "price": 7.5}, {"@type": "Offer", "price": 8}]};
</script>
<script type="application/LD+json"><!-- {"@graph": [{"@type": ["Organization", "https://schema.org/Brand"]}, 7]} --></script>
<script type="application/ld+json">{"@type": </script>
"""
MICRODATA = """
<div itemscope itemtype="https://schema.org/Product http://other.example/Book" itemid="urn:isbn:1">
  <h1 itemprop="name">The  Complete
    Emma</h1>
  <img itemprop="image" src="/a.png"><img itemprop="image" src="b.png">
  <div itemprop="offers" itemscope itemtype="http://schema.org/Offer">
    <meta itemprop="price" content="7.50"><link itemprop="availability" href="https://schema.org/InStock">
    <time itemprop="validFrom" datetime="2026-01-02">Friday</time>
  </div>
  <a itemprop="url sameAs" href="javascript:x">x</a>
</div>
<p itemprop="lost">belongs to no item</p>
<div itemscope><b itemprop="name">bare</b></div>
"""


def test_json_ld_is_read_also_where_it_is_not_quite_json():
    found = page(PRODUCT).structured_data
    assert [one["@type"] for one in found.json_ld] == ["Product", ["Organization", "https://schema.org/Brand"]]
    assert found.json_ld[0]["name"] == "Emma by Austen"
    assert [offer["price"] for offer in found.of_type("Offer")] == [7.5, 8]
    assert len(found.of_type("Brand")) == 1
    assert len(found.errors) == 1
    assert "a script of JSON-LD cannot be read" in found.errors[0]


def test_microdata_has_the_form_of_json_ld():
    product, bare = page(MICRODATA, url="https://books.example/shop/").structured_data.microdata
    assert product == {
        "@type": ["Product", "http://other.example/Book"],
        "@id": "urn:isbn:1",
        "name": "The Complete Emma",
        "image": ["https://books.example/a.png", "https://books.example/shop/b.png"],
        "offers": {
            "@type": "Offer",
            "price": "7.50",
            "availability": "https://schema.org/InStock",
            "validFrom": "2026-01-02",
        },
        "url": "javascript:x",
        "sameAs": "javascript:x",
    }
    assert bare == {"name": "bare"}
    assert [one["price"] for one in page(MICRODATA).structured_data.of_type("Offer")] == ["7.50"]


def test_open_graph_is_read_with_values_that_repeat():
    found = page(
        '<meta property="og:title" content="Emma"><meta property="og:image" content="1"><meta property="og:image" content="2">'
        '<meta name="twitter:card" content="summary"><meta name="viewport" content="x"><meta property="og:none">'
        '<meta name="a:b" content="no"><meta name="twitter:site" property="og:site" content="both">'
    ).structured_data.open_graph
    assert found == {"og:title": "Emma", "og:image": ["1", "2"], "twitter:card": "summary", "og:site": "both"}


def test_a_page_without_any_of_it_has_nothing():
    found = page("<p>x</p>").structured_data
    assert (found.json_ld, found.microdata, found.open_graph, found.errors) == ([], [], {}, [])
    assert page("<p>x</p>").tables() == []
    assert page("<p>x</p>").follow_next() is None


def test_hostile_declarations_are_bounded():
    deep = page(f'<script type="application/ld+json">{"[" * 100_000}</script>').structured_data
    assert len(deep.errors) == 1
    nested = '{"a":' * 500 + '{"@type": "Deep"}' + "}" * 500
    found = page(f'<script type="application/ld+json">{nested}</script>').structured_data
    assert found.of_type("Deep") == []
    text = f"{'<b itemprop=x>' * 50}{'y' * 2**20}{'</b>' * 50}"
    (long,) = page(f"<i itemscope>{text}</i>").structured_data.microdata
    assert sum(map(len, long["x"])) <= reading.MOST_TEXT
    many = page("<i itemscope><b itemprop=x>y</b></i>" * reading.MOST_ELEMENTS).structured_data
    assert len(many.microdata) == reading.MOST_ELEMENTS / 2


def test_tables_have_a_header_rows_and_spans():
    first, second = page("""
        <table><caption>Prices</caption><thead><tr><th>Title<th colspan=2>Price</thead>
        <tr><td rowspan=2> Emma <td>7<td>8</tr><tr><td>9</tr>
        <tr><td>Persuasion<td><table><tr><td>inner</table></tr></table>
    """).tables()
    assert first.caption == "Prices"
    assert first.header == ["Title", "Price", "Price"]
    assert first.rows == [["Emma", "7", "8"], ["Emma", "9"], ["Persuasion", "inner"]]
    assert first.dicts()[0] == {"Title": "Emma", "Price": "7", "column 3": "8"}
    assert (second.header, second.rows, second.dicts()) == ([], [["inner"]], [{"column 1": "inner"}])


def test_a_first_row_of_th_is_the_header_and_later_ones_are_not():
    (table,) = page("<table id=a><tr><th>A<th>B<tr><th>1<td>2<tr><th>3<th>4</table>").tables("#a")
    assert table.dicts() == [{"A": "1", "B": "2"}, {"A": "3", "B": "4"}]


def test_hostile_tables_are_bounded():
    row = "<tr><td colspan=999999999 rowspan=99999999>x</td></tr><tr><td colspan=1000>y"
    (table,) = page(f"<table>{row * 300}</table>").tables()
    assert sum(map(len, table.rows)) <= reading.MOST_CELLS
    assert max(map(len, table.rows)) <= reading.WIDEST


@pytest.mark.parametrize(
    "html",
    [
        '<link rel="prev next" href=/2><a class=next href=/no>x</a>',
        "<a class=next href=/no>x</a><a rel=NEXT href=/2>more</a>",
        "<li class=next><a href=/2>&gt;</a>",
        '<a aria-label="Next Page" href=/2>x</a>',
        "<a href=/no>what happens next</a><a href=/2> Next » </a>",
        "<a class='next disabled' href=/no>x</a><a href=#>next</a><a href=/2>›</a>",
    ],
)  # fmt: skip
def test_the_next_page_is_found(html):
    followed = page(html).follow_next(priority=3, meta={"a": 1})
    assert (followed.url, followed.priority, followed.meta) == ("https://example.com/2", 3, {"a": 1})


def test_the_next_page_may_be_named_and_may_be_out_of_scope():
    found = page("<a rel=next href=https://other.example/>x</a><a id=more href=/2>more</a>")
    assert found.follow_next() is None
    assert found.skipped.total() == 1
    assert found.follow_next("#more").url == "https://example.com/2"
    assert found.follow_next("#none") is None
