"""What the tests of the plugin share."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from silkline.testing.site import LocalSite
from tests.scrapy.processes import BETWEEN, HERE, PATHS, PYTHONS, SHOP_PROJECT, Scrapy, Zygote, python_of

_runs = itertools.count()
COMMANDS = ("crawl", "runspider", "parse", "fetch", "view", "shell", "check", "list", "bench")


@pytest.fixture(scope="session")
def zygotes():
    running = {}

    def get(version):
        if not Path(python_of(version)).exists():
            pytest.skip("make .venv-scrapy-2.13/.installed")
        if version in PATHS and not PATHS[version][0].exists():
            pytest.skip(f"make {PATHS[version][0].name}/.installed")
        if version not in running:
            running[version] = Zygote(version)
        return running[version]

    yield get
    for zygote in running.values():
        zygote.stop()


@pytest.fixture
def scrapy(zygotes, valkey, crawl, tmp_path):
    """Starts ``scrapy …`` (or a program) in the project of the tests; whatever still runs at the end is killed."""
    started = []

    def start(*command, version="newest", settings=(), url=None, folder=SHOP_PROJECT, **environment):
        log = tmp_path / f"log-{next(_runs)}"
        options = {"REDIS_URL": url or valkey.url, "SILKLINE_CRAWL": crawl, "SILKLINE_ALLOW_PRIVATE": True}
        options |= dict(settings)
        if command[0] in COMMANDS:
            flags = [flag for name, value in options.items() if value is not None for flag in ("-s", f"{name}={value}")]
            command = ("scrapy", *command, *flags)
        spoken = {"OUT": str(tmp_path / "out.jsonl"), "REDIS_URL": url or valkey.url, "CRAWL": crawl, **environment}
        started.append(Scrapy(zygotes(version), folder, log, list(command), {k: str(v) for k, v in spoken.items()}))
        return started[-1]

    yield start
    for process in started:
        if process._code is None:
            process.kill()


@pytest.fixture
def out(tmp_path):
    """Where the spiders of the tests write what they found."""
    return tmp_path / "out.jsonl"


# ── programs.py ──
PAGES = {
    "/": "<a href=/a?x=1>a</a> <a href=/a?x=2>a</a> <a href=/b>b</a> <a href=/b>b</a>",
    "/a": "<a href=/>home</a> <a href=/c>c</a> <a href=/b>b</a>",
    "/b": "<a href=/b#top>b</a>",
    "/c": "<h1>c</h1>",
}


@pytest.fixture
def site():
    with LocalSite(PAGES) as site:
        yield site


@pytest.fixture
def program(scrapy, site, tmp_path):
    def run(name, version="newest", **settings):
        where = {"SITE": site.url.rstrip("/"), "SETTINGS": json.dumps(settings)}
        process = scrapy(str(HERE / "programs.py"), name, version=version, folder=tmp_path, **where)
        assert process.wait() == 0, process.log
        assert "Traceback" not in process.log, process.log
        return process

    return run


both_versions = pytest.mark.parametrize("version", list(PYTHONS))
every_version = pytest.mark.parametrize(
    "version", [*PYTHONS, *(pytest.param(version, marks=pytest.mark.long) for version in BETWEEN)]
)
"""For tests of the hooks into Scrapy's engine. `make test` runs them with both versions, `make chaos` with those between."""
