"""Projects of scrapy-redis find the same with scrapy-redis and, after two changed lines, with Silkline.

Each project in `projects` is written for scrapy-redis. It runs with scrapy-redis as it is. For Silkline, a copy is changed as
docs/how-to/migrate-from-scrapy-redis.md says: a line in settings.py, and the name of the package in imports.
"""

from __future__ import annotations

import difflib
import json
import shutil
from pathlib import Path

import pytest

from silkline.testing.site import LocalSite, Shop
from tests.scrapy.conftest import both_versions
from tests.scrapy.processes import HERE, ROOT, SCRAPY_REDIS

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
        silkline = {} if self._version == SCRAPY_REDIS else {"SILKLINE_ALLOW_PRIVATE": True}
        options = {"REDIS_URL": self._url, "SILKLINE_CRAWL": None, "SILKLINE_ALLOW_PRIVATE": None, "LOG_LEVEL": "INFO"}
        options |= {"TELNETCONSOLE_ENABLED": False, **silkline, **settings}
        return self._scrapy(*command, version=self._version, folder=self.folder, settings=options, url=self._url)

    def crawl(self, *arguments, **settings):
        """Run a spider to its end."""
        run = self.start("crawl", *arguments, **settings)
        assert run.wait() == 0, run.log
        assert "Traceback" not in run.log, run.log
        return run

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
