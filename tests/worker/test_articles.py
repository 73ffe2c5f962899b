"""The main text of pages: read in the sandbox, with a limit on its cost."""

from __future__ import annotations

import pytest

from silkline.errors import ConfigError
from silkline.testing import SiteResponse, page
from silkline.worker.crawl import page as page_module
from silkline.worker.crawl.reading import Article

SENTENCE = "The quick brown fox jumps over the lazy dog while it reads about silk and lines. "


def html_of(paragraphs=8, title="On silk"):
    body = "".join(f"<p>{number}. {SENTENCE * 4}</p>" for number in range(paragraphs))
    return (
        f"<html lang=en><head><title>{title} - The Weaver</title><meta property='og:title' content='{title}'>"
        "<meta name=author content='Ann Bee'><meta property='article:published_time' content='2026-03-05T10:00:00Z'>"
        f"</head><body><nav>{'<a href=/x>elsewhere</a>' * 50}</nav><article><h1>{title}</h1>{body}</article>"
        "<footer>All rights reserved</footer></body></html>"
    )


ATTRIBUTES = "<p " + " ".join(f"a{number}=1" for number in range(50_000)) + ">x"


def test_an_article_has_text_title_author_date_and_language():
    found = page(html_of()).article()
    assert found.text.count(SENTENCE.strip()) == 32
    assert "elsewhere" not in found.text
    assert (found.title, found.author, found.date, found.language) == ("On silk", "Ann Bee", "2026-03-05", "en")


@pytest.mark.parametrize("html", ["", "<p></p>", "\x00\xff", "<" * 500])
def test_a_page_without_an_article_has_an_empty_one(html):
    assert page(html).article().text == ""


def test_what_is_no_html_has_no_article():
    assert page("{}", headers={"Content-Type": "application/json"}).article() == Article()


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(page_module, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'silkline\[article\]'"):
        page(html_of()).article()


async def test_articles_are_read_beside_the_event_loop_after_the_first_one(run, serve, new_crawl, monkeypatch):
    routes = {f"/{number}": html_of(number, f"Page {number}") for number in (8, 9, 200)}
    site = await serve({"/": html_of(), **routes})
    crawl = new_crawl([site.url])
    in_loop = []
    monkeypatch.setattr(
        page_module, "check_now", lambda *given, check=page_module.check_now: in_loop.append(1) or check(*given)
    )

    @crawl.handler
    def parse(page):
        article = page.article()
        yield {"title": article.title, "sentences": article.text.count(SENTENCE.strip())}
        if page.depth == 0:
            yield page.follow(list(routes))

    done = await run(crawl)
    found = {item["title"]: item["sentences"] for item in done.items}
    assert found == {"On silk": 32, "Page 8": 32, "Page 9": 36, "Page 200": 800}
    assert len(in_loop) == 1


async def test_an_article_that_costs_too_much_is_a_dead_letter(run, serve, new_crawl):
    site = await serve({"/": html_of(), "/hostile": SiteResponse(ATTRIBUTES), "/good": html_of(title="Good")})
    crawl = new_crawl([site.url])

    @crawl.handler
    def parse(page):
        yield {"title": page.article().title}
        if page.depth == 0:
            yield page.follow(["/hostile", "/good"])

    done = await run(crawl)
    assert sorted(item["title"] for item in done.items) == ["Good", "On silk"]
    assert [(letter.url, letter.reason.partition(":")[0]) for letter in done.dead] == [
        (site.at("/hostile"), "hostile_html")
    ]
