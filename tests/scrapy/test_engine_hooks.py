"""The hooks into Scrapy's engine, with the oldest and the newest Scrapy that the plugin supports."""

from __future__ import annotations

from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import HERE, lines

PAGES = {"/", "/b"}
REFUSED = "http://127.0.0.1:1/"


def urls(out, hook):
    return {fact.get("url") for fact in lines(out) if fact.get("hook") == hook}


@both_versions
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


@both_versions
def test_a_scrapy_without_a_hook_stops_the_spider_with_a_sentence(scrapy, site, out, tmp_path, version):
    where = {"SITE": site.url.rstrip("/"), "SETTINGS": "{}"}
    process = scrapy(str(HERE / "programs.py"), "without_hook", version=version, folder=tmp_path, **where)
    process.wait()
    assert "the spider cannot open: Silkline cannot work with Scrapy 2." in process.log
    assert "the engine has no _handle_downloader_output" in process.log
    assert "AttributeError" not in process.log
    assert len(site.visits) == 0
