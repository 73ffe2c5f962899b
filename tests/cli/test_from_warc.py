"""``silkline run -o x.warc.gz``, and ``silkline run --from-warc``: handlers run over archived pages without the network."""

from __future__ import annotations

import re

import pytest

from silkline.testing import redirect
from tests.cli.sites import SHOP, lines_of

ROUTES = {
    "/": "<a class=product href=/p/1>1</a><a class=product href=/old>2</a><a class=next href=/2>next</a>",
    "/2": "<a class=product href=/p/3>3</a><a class=product href=/p/4>4</a>",
}


def product(number):
    return f"<h1>Product {number}</h1><p class=sku>{number}</p><p class=price>{number}.50</p>"


@pytest.fixture
def archived(site, write, silkline, valkey, workplace):
    """A crawl of a small shop, and its archive. Nothing may ask the site again."""
    routes = {**ROUTES, **{f"/p/{number}": product(number) for number in (1, 2, 3)}, "/old": redirect("/p/2")}
    here = site(routes)
    file = write(here, code=SHOP)
    answer = silkline("run", file, "-o", "pages.warc.gz", "-o", "all.wacz", "-o", "live.jsonl", "--redis", valkey.url)
    assert answer.code == 5, answer.err  # /p/4 is a 404
    assert "stored in live.jsonl\n" in answer.out
    assert re.search("^archive +pages.warc.gz, all.wacz$", answer.out, re.MULTILINE)
    here.forget()
    yield file
    assert len(here.visits) == 0


def test_handlers_run_over_an_archive_without_the_network(archived, silkline, valkey, workplace, crawl, operate):
    def again(archive, *more):
        return silkline("run", archived, "--from-warc", archive, "-o", "again.jsonl", "--redis", valkey.url, *more)

    def skus(name):
        return sorted(item["sku"] for item in lines_of(workplace / name))

    answer = again("pages.warc.gz", "--workers", "2")
    assert answer.code == 5, answer.err
    assert "pages come from pages.warc.gz: 7 URLs, 5 HTML pages" in answer.err
    assert skus("again.jsonl") == skus("live.jsonl") == ["1", "2", "3"]
    replay = f"{crawl}-from-pages"
    assert operate("status", replay, "--json").json["done"] == 6
    assert operate("status", crawl, "--json").json["done"] == 6  # the live crawl is as it was
    (workplace / "pages.wacz").write_bytes((workplace / "all.wacz").read_bytes())
    answer = again("pages.wacz", "-O")  # it starts over without asking
    assert answer.code == 5, answer.err
    assert "pages come from pages.wacz: 7 URLs, 5 HTML pages" in answer.err
    assert skus("again.jsonl") == ["1", "2", "3"]


def test_links_to_pages_that_are_not_in_the_archive_are_skipped_and_without_a_start_url_all_pages_are_read(
    archived, silkline, valkey, workplace
):
    file = workplace / archived
    file.write_text(
        file.read_text().replace("def product(page):", "def product(page):\n    yield page.follow('/none')")
    )
    answer = silkline("run", archived, "--from-warc", "pages.warc.gz", "--redis", valkey.url, "--fresh")
    assert "not in the archive: 3" in answer.out
    lines = file.read_text().splitlines()
    (start,) = [line for line in lines if line.strip().startswith("start=")]
    every = "\n".join(lines).replace(start, "    start=['https://other.example/'],").partition("@crawl")[0]
    file.write_text(f"{every}\n@crawl.handler\ndef title(page):\n    yield {{'title': page.css('h1') != []}}\n")
    answer = silkline("run", archived, "--from-warc", "pages.warc.gz", "-o", "all.jsonl", "--redis", valkey.url)
    assert answer.code == 0, answer.err
    assert "no start URL is in the archive, so the handler title gets all its HTML pages" in answer.err
    assert sorted(item["title"] for item in lines_of(workplace / "all.jsonl")) == [False, False, True, True, True]


def test_a_damaged_archive_is_read_as_far_as_possible_and_other_mistakes_are_explained(
    archived, silkline, valkey, workplace, operate
):
    archive = workplace / "pages.warc.gz"
    (workplace / "torn.warc.gz").write_bytes(archive.read_bytes()[:-20])
    answer = silkline("run", archived, "--from-warc", "torn.warc.gz", "--redis", valkey.url)
    assert answer.code in (0, 5), answer.err
    assert "damaged: " in answer.err
    assert "the record is incomplete; " in answer.err
    for arguments, words in {
        ("none.warc.gz",): "there is no archive",
        (archived,): "is not a WARC file: no record can be read in it",
        ("pages.warc.gz", "-o", "new.warc.gz"): "--from-warc fetches nothing; name an output for items",
        ("pages.warc.gz", "--feed", "urls.txt"): "--from-warc and --feed exclude each other",
        ("pages.warc.gz", "--cache", "cache"): "--from-warc and --cache exclude each other",
    }.items():
        answer = operate("run", archived, "--from-warc", *arguments)
        assert (answer.code, words in answer.err) == (2, True), answer.err
