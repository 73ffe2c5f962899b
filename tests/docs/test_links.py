"""Every link inside the repository leads somewhere, and a link that names a function leads to its file."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, anchors, links, name_of

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@every_page
def test_links_resolve(page):
    for text, target in links(page):
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"[{text}]({target})"
        assert not anchor or anchor in anchors(found), f"[{text}]({target})"


@every_page
def test_a_name_in_code_that_links_to_a_file_is_defined_there(page):
    for text, target in links(page):
        name = re.fullmatch(r"`(?:\w+\.)*(\w+)`", text)
        if (
            not name
            or not target.endswith((".py", ".lua"))
            or target.endswith(f"/{name[1]}{target[target.rfind('.') :]}")
        ):
            continue
        path = (page.parent / target).resolve()
        if path.name != text.strip("`"):
            source = path.read_text()
            assert re.search(rf"\b(def|class|function) {name[1]}\b|^{name[1]} = ", source, re.MULTILINE), (text, target)


def test_every_page_of_the_docs_can_be_reached_from_the_readme():
    readme = PAGES[0]
    reached, todo = set(), [readme]
    while todo:
        page = todo.pop()
        reached.add(page)
        for _, target in links(page):
            path = (page.parent / target.partition("#")[0]).resolve()
            if path in PAGES and path not in reached:
                todo.append(path)
    assert set(PAGES) <= reached, sorted(name_of(page) for page in set(PAGES) - reached)
