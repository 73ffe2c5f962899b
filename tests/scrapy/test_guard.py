"""Where a spider may connect to, and what data may name."""

from __future__ import annotations

import json
import sys

import pytest
from scrapy import Spider
from scrapy.settings import Settings

import silkline.scrapy
from silkline import SyncFrontier
from silkline.core.request import Request
from silkline.errors import ConfigError
from silkline.scrapy import Addon
from silkline.scrapy.convert.classes import UnusableRequest, load_classes
from silkline.scrapy.convert.requests import to_core, to_scrapy
from silkline.scrapy.convert.values import pack, unpack
from silkline.scrapy.guard import PrivateHosts
from tests.scrapy.conftest import both_versions

# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def dead(valkey, crawl):
    """The reasons of dead letters by host."""

    def read():
        with SyncFrontier.open(valkey.url, crawl=f"{crawl}-forbidden", create=False) as frontier:
            return {letter.host.partition(":")[0]: letter.reason for letter in frontier.admin.dead()}

    return read


@both_versions
def test_a_spider_does_not_connect_to_private_addresses_and_says_what_to_set(program, site, version, dead):
    process = program("forbidden", version, SILKLINE_ALLOW_PRIVATE=False, SCHEDULER_PERSIST=True)
    assert list(site.visits) == []
    assert 'SILKLINE_ALLOW_PRIVATE = ["localhost"]' in process.log
    assert 'SILKLINE_ALLOW_PRIVATE = ["127.0.0.1"]' in process.log
    assert set(dead()) == {"127.0.0.1", "localhost", "169.254.169.254"}
    assert all(reason.startswith("Forbidden: ") for reason in dead().values())


@pytest.mark.parametrize("allowed", [["localhost"], True])
def test_hosts_that_the_project_names_are_allowed(program, site, allowed, dead):
    program("forbidden", SILKLINE_ALLOW_PRIVATE=allowed, SCHEDULER_PERSIST=True)
    hosts = {visit.headers["host"].partition(":")[0] for visit in site.visits}
    assert "localhost" in hosts
    assert ("127.0.0.1" in hosts) == (allowed is True)
    assert "127.0.0.1" in dead() or allowed is True
    assert dead()["169.254.169.254"].startswith("Forbidden: ")


OF_SCRAPY_REDIS = {"ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300}, "SCHEDULER_PERSIST": True}


@both_versions
def test_a_project_of_scrapy_redis_may_connect_to_private_addresses_and_logs_that(program, site, dead, version):
    process = program("forbidden", version, SILKLINE_ALLOW_PRIVATE=None, **OF_SCRAPY_REDIS)
    assert {visit.headers["host"].partition(":")[0] for visit in site.visits} >= {"127.0.0.1", "localhost"}
    assert process.log.count("Private addresses are allowed, because this project was written for scrapy-redis") == 1
    assert dead()["169.254.169.254"].startswith("Forbidden: "), "where clouds keep credentials"


@pytest.mark.parametrize("setting", [False, ["b.internal"]])
def test_a_project_of_scrapy_redis_that_has_the_setting_gets_what_it_says(program, site, dead, setting):
    process = program("forbidden", SILKLINE_ALLOW_PRIVATE=setting, **OF_SCRAPY_REDIS)
    assert list(site.visits) == []
    assert "Private addresses are allowed" not in process.log


def test_a_project_with_an_alias_of_scrapy_redis_speaks_it(monkeypatch):
    settings = Settings()
    Addon().update_settings(settings)
    assert PrivateHosts.read(settings).all is False
    monkeypatch.setitem(sys.modules, "scrapy_redis", silkline.scrapy)
    settings = Settings()
    Addon().update_settings(settings)
    assert PrivateHosts.read(settings).all is True


@pytest.mark.parametrize(
    ("setting", "allows", "refuses"),
    [
        (False, [], ["10.0.0.1", "localhost"]),
        ("False", [], ["10.0.0.1"]),
        (True, ["10.0.0.1", "localhost"], ["169.254.169.254"]),
        ("true", ["10.0.0.1"], []),
        ("a.internal, [::1]", ["a.internal", "A.INTERNAL.", "::1"], ["b.internal"]),
        (["a.internal"], ["a.internal"], ["b.internal"]),
    ],
)
def test_the_setting_is_yes_no_or_a_list(setting, allows, refuses):
    private_hosts = PrivateHosts.read(Settings({"SILKLINE_ALLOW_PRIVATE": setting}))
    assert all(private_hosts.refusal_reason(host, "10.0.0.1") is None for host in allows)
    assert all(private_hosts.refusal_reason(host, "10.0.0.1" if "." not in host[-4:] else host) for host in refuses)


def test_a_setting_that_means_nothing_is_refused():
    with pytest.raises(ConfigError, match="True, False or a list"):
        PrivateHosts.read(Settings({"SILKLINE_ALLOW_PRIVATE": 7}))


# ── what stored data may name ────────────────────────────────────────────────────────────────────────────────────────


class Shop(Spider):
    name = "shop"

    def parse(self, response): ...

    def _parse_item(self, response): ...

    def __secret(self, response): ...


@pytest.mark.parametrize("name", ["parse", "_parse_item", "_Shop__secret"])
def test_the_spiders_own_methods_may_be_callbacks(name):
    spider = Shop()
    assert to_scrapy(Request("https://a.example/", handler=name), spider).callback == getattr(spider, name)


@pytest.mark.parametrize("name", ["__init__", "__class__", "_set_crawler", "__reduce__", "__init_subclass__"])
def test_methods_of_python_and_scrapy_that_begin_with_an_underscore_are_no_callbacks(name):
    for request in (
        Request("https://a.example/", handler=name),
        Request("https://a.example/", handler="parse", meta={"e": name}),
    ):
        with pytest.raises(UnusableRequest):
            to_scrapy(request, Shop())


def test_a_stored_request_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('it ran')\nclass X: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    for path in ("planted.X", "unittest.__main__.X", "nosuch.Class", "scrapy.Spider"):
        with pytest.raises(UnusableRequest, match=path):
            to_scrapy(Request("https://a.example/", meta={"C": path}), Shop())


def test_the_project_names_classes_that_it_imports_late(tmp_path, monkeypatch):
    (tmp_path / "late_requests.py").write_text("import scrapy\nclass Late(scrapy.Request): pass\nclass No: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    stored = Request("https://a.example/", meta={"C": "late_requests.Late"})
    with pytest.raises(UnusableRequest, match=r"SILKLINE_CLASSES = \['late_requests.Late'\]"):
        to_scrapy(stored, Shop())
    load_classes(Settings({"SILKLINE_CLASSES": ["late_requests.Late"]}))
    assert type(to_scrapy(stored, Shop())).__name__ == "Late"
    for wrong in ("late_requests.No", "late_requests.Gone"):
        with pytest.raises(ConfigError, match=wrong):
            load_classes(Settings({"SILKLINE_CLASSES": [wrong]}))


@pytest.mark.parametrize("written", ["file:///etc/passwd", "https://b.example/", "https://a.example/other", 7])
def test_a_spelling_that_is_another_address_is_refused(written):
    with pytest.raises(UnusableRequest, match="spelled as another address"):
        to_scrapy(Request("https://a.example/", meta={"u": written}), Shop())


def test_a_spelling_that_is_the_same_address_is_kept():
    import scrapy  # noqa: PLC0415 - beside the name of a fixture

    written = "https://A.example/x y"
    stored = to_core(scrapy.Request(written), Shop())
    assert to_scrapy(stored, Shop()).url == scrapy.Request(written).url


def test_a_number_makes_no_bytes():
    assert unpack(pack(bytearray(b"abc"), "x")) == bytearray(b"abc")
    assert unpack(json.loads('{"\\u0000": ["bytearray", 4000000000]}')) == bytearray()
