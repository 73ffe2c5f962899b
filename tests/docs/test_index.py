"""The index of the docs is complete."""

from __future__ import annotations

from tests.docs.pages import ROOT, links, name_of

DOCS = ROOT / "docs"


def linked():
    return [(DOCS / target.partition("#")[0]).resolve() for _, target in links(DOCS / "index.md")]


def test_the_index_lists_every_decision_once_and_in_order():
    decisions = [path for path in linked() if path.parent.name == "adr"]
    assert decisions == sorted((DOCS / "adr").glob("*.md"))


def test_the_index_lists_every_page():
    pages = {path for path in DOCS.rglob("*.md") if path.name != "index.md"}
    assert {name_of(path) for path in pages - set(linked())} == set()
