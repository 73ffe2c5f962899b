"""Dead letters page by page, and as files."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape

import pytest

from silkline import Bury, Politeness, SyncFrontier


@pytest.fixture
def cemetery(store, crawl):
    """120 letters, 60 of each kind, and all of a kind buried at once."""
    with SyncFrontier.open(store.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=200)) as frontier:
        for status in (404, 503):
            frontier.enqueue([f"https://{status}.example/{number}" for number in range(60)])
            frontier.settle([(lease, Bury(f"HTTP {status}", status)) for lease in frontier.claim(60)])
        yield frontier
        frontier.admin.remove()


def next_page(answer):
    found = re.search(r'rel="next" href="([^"]*)"', answer.text)
    return unescape(found[1]) if found else ""


@pytest.mark.parametrize(("query", "sizes"), [("", [50, 50, 20]), ("&status=404", [50, 10])])
def test_all_letters_are_reached(guest, cemetery, query, sizes):
    path, found = f"/dead?crawl={cemetery.crawl}{query}", []
    while path:
        answer = guest.get(path)
        assert answer.status == 200
        rows = re.findall(r'<td class="lead"><span class="url"><a href="[^"]*id=([^"&]+)"', answer.text)
        assert ("By reason" in answer.words) == (not found and not query)
        found.append(rows)
        path = next_page(answer)
    assert [len(rows) for rows in found] == sizes
    assert len({one for rows in found for one in rows}) == sum(sizes)


def test_what_matches_the_filter_is_exported(guest, cemetery):
    page = guest.get(f"/dead?crawl={cemetery.crawl}&status=503")
    link = unescape(re.search(r'href="([^"]*/dead/export[^"]*)"', page.text)[1])
    answer = guest.get(link)
    assert answer.headers["content-disposition"] == f'attachment; filename="{cemetery.crawl}-dead.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 60
    assert {row["reason"] for row in rows} == {"HTTP 503"}
    lines = guest.get(f"/dead/export?crawl={cemetery.crawl}&format=jsonl").text.splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == 120


def test_an_export_shows_no_passwords_and_runs_no_formula(guest, cemetery):
    cemetery.enqueue("https://user:geheim@pass.example/")
    cemetery.bury(cemetery.claim(1)[0], "@SUM(1)")
    answer = guest.get(f"/dead/export?crawl={cemetery.crawl}&host=pass.example")
    [row] = csv.DictReader(io.StringIO(answer.text))
    assert row["reason"] == "'@SUM(1)"
    assert "geheim" not in answer.text


@pytest.mark.parametrize(
    "wrong", ["/dead?crawl={}&after=x", "/dead/export?crawl={}&format=x", "/dead/export?crawl={}&status=x"]
)
def test_nonsense_is_refused(guest, cemetery, wrong):
    assert guest.get(wrong.format(cemetery.crawl)).status == 400


def test_without_a_token_there_is_no_export(stranger, cemetery):
    for path in ("/dead/export", "/requests/export"):
        assert stranger.get(f"{path}?crawl={cemetery.crawl}", Accept="text/csv").status == 401
