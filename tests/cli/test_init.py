"""``silkline init``: the starter file."""

from __future__ import annotations

import py_compile

import pytest

from silkline.worker.crawl.loading import load_crawl
from tests.cli.sites import chain, lines_of


def test_the_starter_runs_as_it_is(silkline, site, workplace, valkey):
    here = site(
        chain(3, **{"/": "<title>Front</title><a href=/1>1</a> <a href=/login>in</a> <a href=mailto:a@b.c>m</a>"})
    )
    wrote = silkline("init", "shop.py", "--url", here.url)
    assert (wrote.code, wrote.err) == (0, "")
    assert "silkline run shop.py -o pages.jsonl --allow-private" in wrote.out
    assert (
        '"""An example crawl. Run it:  silkline run shop.py -o pages.jsonl --allow-private'
        in (workplace / "shop.py").read_text()
    )
    py_compile.compile(str(workplace / "shop.py"), doraise=True)
    crawl = load_crawl(str(workplace / "shop.py"))
    assert (crawl.name, [request.url for request in crawl.listed_starts()]) == ("shop", [here.url])
    answer = silkline("run", "shop.py", "-o", "pages.jsonl", "--allow-private", "--delay", "0", "--json")
    assert answer.code == 0, answer.err
    assert {page["title"] for page in lines_of(workplace / "pages.jsonl")} == {"Front", None}
    assert answer.json["skipped"] == {"denied": 1, "not a web address": 1}


def test_by_default_it_is_crawl_py(silkline, workplace):
    assert silkline("init").code == 0
    crawl = load_crawl(str(workplace / "crawl.py"))
    assert crawl.name == "crawl"
    text = (workplace / "crawl.py").read_text()
    assert "silkline run crawl.py" in text
    assert "--allow-private" not in text


def test_a_file_that_is_there_is_overwritten_only_by_force(silkline, workplace):
    (workplace / "crawl.py").write_text("mine")
    answer = silkline("init")
    assert answer.code == 2
    assert "crawl.py already exists; --force overwrites it" in answer.err
    assert (workplace / "crawl.py").read_text() == "mine"
    assert silkline("init", "--force").code == 0
    assert "mine" not in (workplace / "crawl.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "books"], "not an absolute URL"),
        (["books.txt"], "must end in .py"),
        (["nowhere/books.py"], "nowhere/books.py cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_written_is_reported(silkline, workplace, arguments, words):
    answer = silkline("init", *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert list(workplace.iterdir()) == []


@pytest.mark.parametrize("url", ['https://a.example/?q="x"', "https://a.example/\\'"])
def test_any_url_becomes_a_python_literal(silkline, workplace, url):
    assert silkline("init", "my shop!.py", "--url", url).code == 0
    crawl = load_crawl(str(workplace / "my shop!.py"))
    assert crawl.name == "my-shop"
    assert [request.url for request in crawl.listed_starts()] == [url]
