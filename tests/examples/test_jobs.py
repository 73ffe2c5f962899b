"""The examples of jobs, as their readers run them: the command line, real processes, a real PostgreSQL and real HTTP."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psycopg
import pytest

from silkline import SyncFrontier
from silkline.testing import LocalSite
from tests.cli.processes import COMMAND, Running, environment
from tests.sinks.postgres_server import PostgresServer

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = EXAMPLES / "jobs"
PRODUCT = '{{"name": "{0}", "price": {1}}}'


@pytest.fixture
def url(own_server):
    return own_server().url


@pytest.fixture
def start(url, tmp_path, forker):
    """Start a command that goes on."""
    running = []

    def start_(*words, **variables):
        running.append(Running(*words, cwd=tmp_path, forker=forker, SILKLINE_REDIS=url, **variables))
        return running[-1]

    yield start_
    for one in running:
        one.close()


@pytest.fixture
def run(url, tmp_path):
    """Run a program to its end."""

    def run_(*words, **variables):
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(SILKLINE_REDIS=url, **variables),
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run_


def wait_until(holds, running=None):
    while not holds():
        assert running is None or running.process.poll() is None, running.err
        time.sleep(0.02)


@pytest.fixture(scope="module")
def postgres():
    server = PostgresServer().start()
    yield server
    server.remove()


def test_a_coordinator_fills_its_table_exactly_although_a_worker_is_killed(start, url, postgres):
    def price(visit):
        return PRODUCT.format(visit.path, int(visit.path.rpartition("/")[2]) + 0.5)

    with LocalSite({"/p/*": price}, latency=0.01) as site, psycopg.connect(postgres.url(), autocommit=True) as database:
        database.execute("CREATE TABLE products (url text PRIMARY KEY, name text, price numeric, note text)")
        rows = [(f"{site.url}p/{number}", f"note {number}") for number in range(1000)]
        database.cursor().executemany("INSERT INTO products (url, note) VALUES (%s, %s)", rows)
        out = postgres.url(table="products", key="url")
        workers = [start("worker", JOBS / "shop.py", "--forever", "--lease", 2, "-o", out) for _ in range(4)]
        coordinator = subprocess.Popen(
            [sys.executable, JOBS / "coordinator.py"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(SILKLINE_REDIS=url, DATABASE=postgres.url()),
        )
        priced = "SELECT count(*) FROM products WHERE price IS NOT NULL"
        wait_until(lambda: database.execute(priced).fetchone()[0] > 100)
        workers[0].process.send_signal(signal.SIGKILL)
        said, _ = coordinator.communicate(timeout=100)
        found = database.execute("SELECT url, name, price, note FROM products").fetchall()
    assert said == "1000 URLs, 0 of them without a price, 0 dead letters\n"
    assert sorted(found) == sorted(
        (page, f"/p/{number}", number + 0.5, note) for number, (page, note) in enumerate(rows)
    ), "each row once, and the columns of others unchanged"


def redis_cli(url, *words):
    """Run redis-cli, or send the same command through a socket."""
    path = url.removeprefix("unix://").partition("?")[0]
    if shutil.which("redis-cli"):
        subprocess.run(["redis-cli", "-s", path, *words], check=True, capture_output=True, timeout=100)
        return
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        client.sendall(f"*{len(words)}\r\n{parts}".encode())
        assert client.recv(100).startswith(b":")


def test_workers_are_first_and_redis_cli_feeds_them_later(start, run, url):
    for worker in [start("worker", JOBS / "feed.py", "--forever") for _ in range(2)]:
        worker.wait_for("waiting for it")
    run(COMMAND, "start", JOBS / "feed.py", "-o", "redis:products")
    with (
        LocalSite({path: PRODUCT.format(path, 1) for path in ("/lamp", "/chair")}) as site,
        SyncFrontier.open(url, crawl="fed-shop", create=False) as frontier,
    ):
        wait_until(lambda: len(frontier.admin.workers()) == 2)
        redis_cli(url, "rpush", "urls", f"{site.url}lamp", json.dumps({"url": f"{site.url}chair", "priority": 5}))
        wait_until(lambda: frontier.admin.stats().done == 2)
        assert frontier.admin.status().activity.workers == 2


def test_a_price_monitor_writes_only_changes(start, tmp_path):
    prices = {"/lamp": 5.0, "/chair": 7.0}
    routes = {path: lambda visit: f'<p class="price">{prices[visit.path]}</p>' for path in prices}
    with LocalSite(routes) as site:

        def checks(path):
            return sum(visit.path == path for visit in site.visits)

        products = " ".join(f"{site.url}{path[1:]}" for path in prices)
        monitor = start("run", JOBS / "price_monitor.py", CHECK_EVERY="1", PRODUCTS=products)
        for price in (5.0, 9.0, 5.0):
            prices["/lamp"] = price
            before = checks("/lamp"), checks("/chair")
            wait_until(
                lambda before=before: checks("/lamp") > before[0] + 1 and checks("/chair") > before[1] + 1,
                monitor,
            )
        monitor.process.send_signal(signal.SIGTERM)
        monitor.end()
        with sqlite3.connect(tmp_path / "prices.db") as database:
            rows = database.execute("SELECT url, price FROM prices ORDER BY rowid").fetchall()
        assert [price for url, price in rows if url.endswith("/lamp")] == [5.0, 9.0, 5.0]
        assert [price for url, price in rows if url.endswith("/chair")] == [7.0]


def test_pages_and_tasks_of_one_crawl_end_with_a_report(run, tmp_path):
    names = [f"/product-{number}" for number in range(10)]
    listing = "".join(f"<a class=product href={name}>x</a>" for name in names)
    with LocalSite({"/": listing, **dict.fromkeys(names, "<h1>product</h1>")}) as site:
        summary = json.loads(run(COMMAND, "run", JOBS / "catalogue.py", "--json", SHOP=site.url))
    assert (summary["pages"], summary["calls"]) == (11, 11)
    lines = (tmp_path / "report.txt").read_text().splitlines()
    assert lines == [f"{name} {sum(range(len(name) * 1000)) % 1000}" for name in names]


@pytest.mark.parametrize("application", ["web:app", "django_views:application"], ids=["FastAPI", "Django"])
def test_views_of_both_kinds_enqueue_and_return_results(start, url, application):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start("worker", EXAMPLES / "tasks" / "thumbnails.py")
    web = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", application, "--port", str(port), "--log-level", "warning"],
        cwd=EXAMPLES / "tasks",
        env=environment(SILKLINE_REDIS=url),
    )

    def call(path, method="GET"):
        asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        with urllib.request.urlopen(asked, timeout=60) as reply:
            return json.load(reply)

    def is_up():
        try:
            return socket.create_connection(("127.0.0.1", port)).close() is None
        except ConnectionRefusedError:
            return False

    try:
        wait_until(is_up)
        fetched = call("/fetches/start/abc", "POST")["id"]
        assert call(f"/fetches/{fetched}/result") == {"result": 3}
        assert call(f"/fetches/{fetched}") == {"status": "done"}
        recorded = call("/records/start/abc?size=4", "POST")["id"]
        assert call(f"/records/{recorded}/result") == {"result": "abc: 4"}
    finally:
        web.terminate()
        assert web.wait(60) in (0, -signal.SIGTERM)
