"""Mistakes that many make, and what the command says; counts with the right noun; nothing but items on stdout."""

from __future__ import annotations

import json

import pytest

from tests.cli.sites import chain

HEAD = "from silkline import Crawl\n"
HANDLER = "\n@crawl.handler\ndef page(page): ...\n"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("delay=2", "unknown setting delay of the crawl 'books'; write politeness=Politeness(delay=2)"),
        ("pages=9", "; write budget=Budget(pages=9)"),
        ("contact='me@a.example'", "; write fetching=FetchOptions(contact='me@a.example')"),
        ("color='red'", "unknown setting color of the crawl 'books'\n"),
    ],
)
def test_a_setting_in_the_wrong_place_is_shown_in_the_right_one(here, workplace, setting, words):
    (workplace / "books.py").write_text(
        f"{HEAD}crawl = Crawl('books', start=['https://a.example/'], {setting}){HANDLER}"
    )
    answer = here("run", "books.py")
    assert answer.code == 2
    assert words in answer.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["explain", "foo"], "'foo' cannot be explained: not an absolute URL"),
        (["run", "."], ". is a directory; name the Python file that defines the crawl"),
        (["status"], "or start a crawl first: silkline run FILE"),
    ],
)
def test_the_error_shows_what_was_typed_and_what_to_do(here, arguments, words):
    answer = here(*arguments)
    assert answer.code == 2
    assert words in answer.err


def test_a_host_that_the_crawl_does_not_have_is_pointed_out(operate, frontier, crawl):
    frontier().enqueue(["https://shop.example/"])
    wrong = operate("host", "set", crawl, "shopp.example", "--delay", "5")
    assert wrong.code == 0
    assert f"{crawl} has no requests for shopp.example" in wrong.err
    assert operate("host", "set", crawl, "shop.example", "--delay", "5").err == ""


CODE = """
@crawl.handler
def page(page):
    print("a debugging print")
    yield {"url": page.url}
    if page.url.endswith("/1"):
        raise ValueError("no price")
    yield page.follow(page.css("a"))
"""


def test_what_handlers_print_is_not_among_the_printed_items(silkline, valkey, site, write, crawl):
    file = write(site(chain(2)), CODE)
    answer = silkline("run", file, "-o", "-", "-o", "items.jsonl", "--redis", valkey.url, handler_fails=True)
    assert answer.code == 5
    assert len([json.loads(line)["url"] for line in answer.out.splitlines()]) == 2
    assert answer.err.count("a debugging print") == 3
    assert "items" in answer.err
    assert "2, printed and stored in items.jsonl" in answer.err
    again = silkline("run", file, "-o", "-", "--revive", "--redis", valkey.url, handler_fails=True)
    assert f"{crawl}: 1 dead letter revived" in again.err


def test_one_is_not_many(silkline, valkey, site, write):
    file = write(site({"/": "<h1>one</h1>"}))
    assert silkline("start", file, "-o", "items.jsonl", "--redis", valkey.url).code == 0
    assert "after 1 page and 1 item" in silkline("worker", file, "--redis", valkey.url).err
