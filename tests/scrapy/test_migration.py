"""Projects of scrapy-redis find the same with scrapy-redis and, after two changed lines, with Silkline.

Each project in `projects` is written for scrapy-redis. It runs with scrapy-redis as it is. For Silkline, a copy is changed as
docs/how-to/migrate-from-scrapy-redis.md says: a line in settings.py, and the name of the package in imports.
"""

from __future__ import annotations

import difflib
import json
import pickle
import shutil
from pathlib import Path

import pytest

from silkline.testing.site import LocalSite, Shop
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import HERE, PYTHONS, ROOT, SCRAPY_REDIS, lines
from tests.scrapy.project_site import LISTINGS, PER_LISTING, routes

EXAMPLE = ROOT / "examples" / "scrapy-redis"
PROJECTS = HERE / "projects"
ADDON = 'ADDONS = {"silkline.scrapy.Addon": 100}\n'
SIDES = {SCRAPY_REDIS: 9, "newest": 10, "oldest": 11}
"""The number of the database that each side uses."""


def sources(folder):
    return sorted(path for path in Path(folder).rglob("*.py") if "__pycache__" not in path.parts)


def migrate(folder):
    """Change a project as the docs say."""
    for path in sources(folder):
        text = path.read_text().replace("from scrapy_redis", "from silkline.scrapy")
        path.write_text(text + ADDON if path.name == "settings.py" else text)


class Side:
    """A copy of a project, with scrapy-redis or with Silkline, and a database of its own."""

    def __init__(self, scrapy, version, folder, url, client):
        self._scrapy, self._version, self._url = scrapy, version, url
        self.folder, self.client = folder, client

    def start(self, *command, **settings):
        options = {"REDIS_URL": self._url, "SILKLINE_CRAWL": None, "SILKLINE_ALLOW_PRIVATE": None, "LOG_LEVEL": "INFO"}
        options |= {"TELNETCONSOLE_ENABLED": False, **settings}
        return self._scrapy(*command, version=self._version, folder=self.folder, settings=options, url=self._url)

    def crawl(self, *arguments, log="", **settings):
        """Run a spider to its end. Its log has no tracebacks, or only those with the text *log*."""
        run = self.start("crawl", *arguments, **settings)
        self.check(run)
        tracebacks = run.log.count("Traceback (most recent call last)")
        assert tracebacks == 0 or (log and tracebacks <= run.log.count(log)), run.log
        return run

    def check(self, run):
        """Wait until it ends; it used what it should."""
        assert run.wait() == 0, run.log
        assert ("Silkline uses the crawl" in run.log) is self.is_silkline, run.log
        assert ("Private addresses are allowed" in run.log) is self.is_silkline, run.log

    def program(self, name, *arguments):
        """Run a program of the project to its end."""
        command = (str(self.folder / name), *arguments, self._url)
        self.check(self._scrapy(*command, version=self._version, folder=self.folder, url=self._url))

    @property
    def is_silkline(self):
        return self._version != SCRAPY_REDIS

    def items(self, key):
        return sorted(
            (json.loads(line) for line in self.client.lrange(key, 0, -1)),
            key=lambda item: json.dumps(item, sort_keys=True),
        )


@pytest.fixture
def side(scrapy, valkey, tmp_path):
    """Copies a project for one side; for Silkline it is changed."""
    opened = []

    def make(project, version):
        folder = tmp_path / version
        shutil.copytree(project, folder, ignore=shutil.ignore_patterns("__pycache__"))
        if version != SCRAPY_REDIS:
            migrate(folder)
        client = valkey.client(db=SIDES[version])
        opened.append(client)
        client.flushdb()
        return Side(scrapy, version, folder, f"{valkey.url}?db={SIDES[version]}", client)

    yield make
    for client in opened:
        client.flushdb()
        client.close()


# ── the example ──
SHOP = Shop(pages=43, trouble=False)


def test_the_example_differs_in_two_lines(tmp_path):
    changes = []
    for path in sources(EXAMPLE / "before"):
        name = path.relative_to(EXAMPLE / "before")
        before, after = (
            folder.joinpath(name).read_text().splitlines() for folder in (EXAMPLE / "before", EXAMPLE / "after")
        )
        changes += [line for line in difflib.ndiff(before, after) if line[0] in "-+"]
    assert changes == [
        '+ ADDONS = {"silkline.scrapy.Addon": 100}',
        "- from scrapy_redis.spiders import RedisSpider",
        "+ from silkline.scrapy import RedisSpider",
    ]
    assert len(sources(EXAMPLE / "before")) == len(sources(EXAMPLE / "after"))


@both_versions
def test_the_example_finds_the_same(side, version):
    with LocalSite(SHOP) as site:
        found = {}
        for name, project in ((SCRAPY_REDIS, EXAMPLE / "before"), (version, EXAMPLE / "after")):
            one = side(project, name)
            one.client.lpush("shop:start_urls", site.url)
            one.crawl("shop", MAX_IDLE_TIME_BEFORE_CLOSE=1)
            found[name] = one.items("shop:items")
        assert found[version] == found[SCRAPY_REDIS]
        assert [
            {key: item[key] for key in ("sku", "title", "price")}
            for item in sorted(found[version], key=lambda item: item["sku"])
        ] == SHOP.items


# ── the projects ──
PRODUCTS = LISTINGS * PER_LISTING


def without(items, *names):
    """The items as text that can be sorted, without some fields."""
    return sorted(json.dumps({k: v for k, v in item.items() if k not in names}, sort_keys=True) for item in items)


def example(one, site):
    one.crawl("catalog", "-a", f"site={site.url}")
    echo = site.at("/echo")
    one.client.lpush(
        "fed:todo",
        f"{echo}?plain",
        json.dumps({"url": f"{echo}?json", "meta": {"job": 7}}),
        json.dumps({"url": echo, "form": "x"}),
        json.dumps({"url": f"{echo}?post", "method": "post", "a": "1", "b": "2"}),
    )
    one.crawl("fed")
    one.client.lpush("fed_rules:start_urls", site.url)
    one.crawl("fed_rules", "-a", "domain=127.0.0.1")
    found = [one.items(f"{spider}:items") for spider in ("catalog", "fed", "fed_rules")]
    assert [len(items) for items in found] == [PRODUCTS, 4, PRODUCTS + LISTINGS]
    assert all(item["crawled"] for items in found for item in items)
    assert {item["spider"] for item in found[0]} == {"catalog"}
    return [without(items, "crawled") for items in found]


def fleet(one, site):
    run = one.crawl("master", "-a", f"site={site.url}")
    assert run.log.count("ignores retry_on_error") == one.is_silkline
    assert one.client.scard("slave:start_urls") == PRODUCTS
    one.crawl("slave")
    found, titles = one.items("stored"), sorted(one.client.smembers("slave:titles"))
    assert (len(found), len(titles)) == (2 * PRODUCTS, PRODUCTS)
    assert [item["stock"] for item in found].count("unknown: 404") == PRODUCTS
    return without(found), titles


def login(one, site):
    one.crawl("login", "-a", f"site={site.url}")
    found = one.items("login:items")
    titles = sorted(item["title"] for item in found if "title" in item)
    assert titles[:2] == ["Account of session=ann"] * 2
    assert titles[2:4] == ["Account of session=bob"] * 2
    assert titles[4:] == ["visit 1", "visit 2", "visit 3"]
    assert len(found) == 4 + 3 + 5 + 1 + 1 + 4
    return without(found)


def middlewares(one, site):
    one.crawl("treated", "-a", f"site={site.url}", log="an odd product")
    found = one.items("treated:items")
    assert len(found) == 4 * 3 + 2 + 3
    assert {"title": "let in after 3", "bans": 2} in found
    assert {"failed": "IgnoreRequest"} in found
    return without(found)


def downloads(one, site):
    one.client.lpush("downloads:start_urls", site.url)
    one.crawl("downloads")
    found, feed = one.items("downloads:items"), lines(one.folder / "items.jsonl")
    kept = [number for number in range(PRODUCTS) if number % 3]
    assert without(found) == without(feed)
    assert len(found) == len((one.folder / "items.csv").read_text().splitlines()) - 1 == len(kept)
    files = sorted(path.read_text() for path in (one.folder / "files" / "full").iterdir())
    assert files == sorted(f"/file/{number}.txt" for number in kept)
    assert {item["files"][0]["status"] for item in found} == {"downloaded"}
    return without(found, "file_urls", "files"), files


def bloom(one, site):
    for turn in (1, 2):  # flushed at the start: the second run finds all of it again
        one.client.zadd(
            "bloom:start_urls", {json.dumps({"site": site.url, "pages": n}): n for n in range(1, LISTINGS + 1)}
        )
        run = one.crawl("bloom")
        assert "idle 2 times, closing" in run.log
        assert one.client.llen("bloom:items") == turn * PRODUCTS
    return without(one.items("bloom:items"))


def habits(one, site):
    """Runs twice: the second time, all pages come from the cache, and the state of the first is there."""
    name, found = "Müllers Shop: neu", []
    for turn in (1, 2):
        one.crawl(name, "-a", f"site={site.url}")
        found.append([one.items(f"{name}:items:{kind}") for kind in (0, 1)])
        one.client.delete(f"{name}:items:0", f"{name}:items:1")
        assert one.client.get("processed") == str(turn * PRODUCTS).encode()
        assert pickle.loads((one.folder / "job" / "spider.state").read_bytes()) == {"products": turn * PRODUCTS}
    assert [len(items) for items in found[0]] == [PRODUCTS / 2, PRODUCTS / 2]
    assert [item["cached"] for run in found for items in run for item in items] == [False] * PRODUCTS + [
        True
    ] * PRODUCTS
    assert {item["spider"] for item in found[0][0]} == {name}
    assert len(site.visits) == 1 + LISTINGS + PRODUCTS
    return [[without(items) for items in run] for run in found]


def pair(one, site):
    one.program("run.py", site.url)
    found = {name: one.items(f"found:{name}") for name in ("broad", "deep")}
    for name, first in (("broad", "Listing"), ("deep", "Product")):
        ordered = [item["kind"] for item in sorted(found[name], key=lambda item: item["order"])]
        assert ordered[1 if name == "deep" else 0 :][1] == first, ordered
        assert len(ordered) == 1 + LISTINGS + PRODUCTS
    counts = ("item_scraped_count", "downloader/request_count", "response_received_count", "scheduler/enqueued/redis")
    stats = {name: one.client.hmget(f"{name}:stats", counts) for name in found}
    assert stats["broad"][0] == str(1 + LISTINGS + PRODUCTS).encode()
    return [without(items, "order") for items in found.values()], stats


@pytest.mark.parametrize(
    "scenario", [example, fleet, login, middlewares, downloads, bloom, habits, pair], ids=lambda one: one.__name__
)
def test_a_project_finds_the_same(side, scenario):
    found = {}
    for version in (SCRAPY_REDIS, *PYTHONS):
        with LocalSite(routes()) as site:
            found[version] = scenario(side(PROJECTS / scenario.__name__, version), site)
    for version in PYTHONS:
        assert found[version] == found[SCRAPY_REDIS], version
