"""Only one file of the plugin uses what Scrapy keeps private."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import silkline

PLUGIN = Path(silkline.__file__).parent / "scrapy"
HOOKS = PLUGIN / "bridge" / "engine_hooks.py"
SCRAPYS = {
    "crawler", "downloader", "engine", "middleware", "request", "response", "scraper", "settings", "signals", "slot",
    "spider", "spidermw", "stats",
}  # fmt: skip
"""Names under which the plugin has objects of Scrapy."""
PATCHED = {"engine", "scraper", "slot", "downloader", "spidermw"}
"""Objects of which not even a public attribute may be replaced."""
LOOKUPS = {"getattr", "setattr", "hasattr", "delattr"}


def violations(source: str) -> list[str]:
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if is_private(node) or is_patch(node)]


def name_of(node: ast.expr) -> str:
    """The last name of an expression: of ``self._crawler.engine`` it is "engine"."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.strip("_")


def is_hidden(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__")


def is_private(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return is_hidden(node.attr) and name_of(node.value) in SCRAPYS
    if isinstance(node, ast.Call) and name_of(node.func) in LOOKUPS and len(node.args) > 1:
        name = node.args[1]
        return isinstance(name, ast.Constant) and is_hidden(name.value) and name_of(node.args[0]) in SCRAPYS
    return False


def is_patch(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and name_of(node.value) in PATCHED


@pytest.mark.parametrize(
    "line",
    [
        "engine._slot",
        "self._crawler.engine._slot.closing",
        "crawler.engine.scraper._process_spidermw_output = watch",
        "scraper.handle_spider_error = watch",
        "slot.close = begin",
        'getattr(engine, "_slot", None)',
        'hasattr(self.crawler.engine, "_slot")',
    ],
)
def test_private_names_are_found(line):
    assert violations(line) != []


@pytest.mark.parametrize(
    "line", ["self._slot", "crawler.engine.crawl(request)", "self._crawler = crawler", "engine.__class__"]
)
def test_public_names_are_allowed(line):
    assert violations(line) == []


def test_only_the_hooks_use_what_scrapy_keeps_private():
    files = sorted(PLUGIN.rglob("*.py"))
    assert violations(HOOKS.read_text()) != []
    assert {path.name: found for path in files if path != HOOKS if (found := violations(path.read_text()))} == {}
