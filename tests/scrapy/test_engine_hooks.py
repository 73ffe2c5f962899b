"""The hooks into Scrapy's engine, with each minor version of Scrapy that the plugin supports."""

from __future__ import annotations

import re

import scrapy as newest_scrapy

from tests.scrapy.conftest import every_version
from tests.scrapy.processes import BETWEEN, HERE, PYTHONS, ROOT, lines

PAGES = {"/", "/b"}
REFUSED = "http://127.0.0.1:1/"


def urls(out, hook):
    return {fact.get("url") for fact in lines(out) if fact.get("hook") == hook}


@every_version
def test_each_hook_is_called_and_each_missing_name_is_named(scrapy, site, out, tmp_path, version):
    where = {"SITE": site.url.rstrip("/"), "SETTINGS": "{}"}
    process = scrapy(str(HERE / "programs.py"), "watched", version=version, folder=tmp_path, **where)
    assert process.wait() == 0, process.log
    assert urls(out, "ready") == urls(out, "ended") == urls(out, "download") == PAGES | {REFUSED}
    assert urls(out, "callback") == {"/b"}
    assert urls(out, "errback") == {REFUSED}
    assert urls(out, "before") == urls(out, "after") == {"/b"}
    assert urls(out, "failed") == set()
    assert urls(out, "closing") == {None}
    assert [fact["name"] for fact in lines(out) if fact.get("hook") == "scheduler"] == ["Scheduler"]
    checked = [fact for fact in lines(out) if "missing" in fact]
    assert len(checked) == 16
    for fact in checked:
        assert fact["error"].startswith("Silkline cannot work with Scrapy 2."), fact
        assert fact["missing"] in fact["error"], fact


@every_version
def test_a_scrapy_without_a_hook_stops_the_spider_with_a_sentence(scrapy, site, out, tmp_path, version):
    where = {"SITE": site.url.rstrip("/"), "SETTINGS": "{}"}
    process = scrapy(str(HERE / "programs.py"), "without_hook", version=version, folder=tmp_path, **where)
    process.wait()
    assert "the spider cannot open: Silkline cannot work with Scrapy 2." in process.log
    assert "the engine has no _handle_downloader_output" in process.log
    assert "AttributeError" not in process.log
    assert len(site.visits) == 0


def minor(version):
    return ".".join(version.split(".")[:2])


def test_every_minor_version_is_tested_and_named_by_the_docs():
    """After `make lock` has found a newer Scrapy, add the one before to `BETWEEN` in the Makefile."""
    [oldest] = re.findall(r"^scrapy==(\S+)", (HERE / "oldest.lock").read_text(), re.MULTILINE)
    tested = [minor(oldest), *BETWEEN, minor(newest_scrapy.__version__)]
    first, last = (int(version.split(".")[1]) for version in (tested[0], tested[-1]))
    assert tested == [f"2.{number}" for number in range(first, last + 1)]
    assert f"\nBETWEEN := {' '.join(BETWEEN)}\n" in (ROOT / "Makefile").read_text()
    for page in ("README.md", "docs/how-to/scrapy.md", "src/silkline/scrapy/bridge/engine_hooks.py"):
        assert f"{tested[0]} to {tested[-1]}" in (ROOT / page).read_text(), page


@every_version
def test_each_version_runs_with_the_packages_that_it_requires(scrapy, site, out, tmp_path, version):
    where = {"SITE": site.url, "SETTINGS": "{}"}
    process = scrapy(str(HERE / "programs.py"), "packages", version=version, folder=tmp_path, **where)
    assert process.wait() == 0, process.log
    [found] = lines(out)
    assert found["unmet"] == []
    if version not in PYTHONS:
        assert minor(found["scrapy"]) == version
