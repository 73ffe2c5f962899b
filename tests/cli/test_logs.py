"""``--log-json``: stderr has one JSON object per line, and nothing else."""

from __future__ import annotations

import json
import logging
import signal
from datetime import datetime

import pytest

from silkline import Request
from silkline.cli import screen
from silkline.cli.logs import log_to_screen
from silkline.core.lease import Lease
from silkline.core.verdict import Bury
from silkline.worker.attempt import log_page
from tests.cli.sites import chain

CODE = """
import logging

@crawl.handler
def page(page):
    logging.getLogger("shop").warning("sold out", extra={"sku": 7})
    if page.url.endswith("2"):
        raise ValueError("no price")
    yield page.follow(page.css("a"))
"""


def entries(text):
    found = [json.loads(line) for line in text.splitlines()]
    for entry in found:
        assert {"time", "level", "logger", "message", "pid"} <= entry.keys()
        assert datetime.fromisoformat(entry["time"]).tzinfo
    return found


def test_all_that_a_run_says_is_json(silkline, valkey, site, write, crawl):
    file = write(site(chain(2)), CODE)
    answer = silkline("run", file, "-o", "-", "--log-json", "--redis", valkey.url, handler_fails=True)
    assert answer.code == 5
    told = entries(answer.err)
    assert {entry["crawl"] for entry in told} == {crawl}
    [failed] = [entry for entry in told if "ValueError: no price" in entry["message"]]
    assert failed["url"].endswith("/2")
    assert (failed["level"], failed["logger"].split(".")[0]) == ("warning", "silkline")
    assert {(entry["level"], entry["sku"]) for entry in told if entry["logger"] == "shop"} == {("warning", 7)}
    assert len({entry["pid"] for entry in told}) == 2, "of the run and of its worker"
    assert f"{crawl} is finished, but has 1 dead letter" in [entry["message"] for entry in told]


def test_a_worker_and_a_mistake_too_if_the_environment_says_so(silkline, valkey, site, write, crawl):
    file = write(site({}))
    answer = silkline("worker", file, "--redis", valkey.url, "--no-wait", SILKLINE_LOG_JSON="1")
    assert answer.code == 2
    [last] = entries(answer.err)
    assert (last["level"], last["crawl"]) == ("error", crawl)
    assert "no crawl named" in last["message"]
    assert silkline("start", file, "--redis", valkey.url).code == 0
    answer = silkline("worker", file, "--redis", valkey.url, SILKLINE_LOG_JSON="1")
    first = entries(answer.err)[0]
    assert (first["level"], first["crawl"], first["message"].startswith("working on ")) == ("info", crawl, True)


@pytest.mark.parametrize(
    ("words", "ready"),
    [(["dashboard", "--port", "0"], "Ctrl-C"), (["autoscale", "{crawl}", "--serve", "0"], "/readyz")],
)
def test_servers_log_json(running, frontier, crawl, valkey, words, ready):
    frontier()
    server = running(*(word.format(crawl=crawl) for word in words), "--log-json", "--redis", valkey.url)
    server.wait_for(ready)
    server.process.send_signal(signal.SIGTERM)
    server.end()
    assert ready in entries(server.err)[0]["message"]


@pytest.fixture
def json_log(monkeypatch):
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    monkeypatch.setattr(screen._Remarks, "log", None)
    log_to_screen("info", as_json=True, crawl="books")
    yield logging.getLogger("shop")
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def test_an_entry_has_its_exception_and_no_password_and_stays_one_line(json_log, capsys):
    try:
        raise ValueError("https://me:geheim@shop.example/ is\nwrong")  # noqa: TRY301
    except ValueError:
        json_log.exception("failed on %s", "https://me:geheim@shop.example/\u2028\x1b[31m")
    screen.complain("gone")
    text = capsys.readouterr().err
    assert "geheim" not in text
    assert "\x1b" not in text
    failed, gone = entries(text)
    assert failed["exception"].startswith("Traceback")
    assert failed["exception"].endswith("is\nwrong")
    assert failed["url"].startswith("https://me:***@shop.example/")
    assert failed["crawl"] == "books"
    assert (gone["level"], gone["message"]) == ("error", "gone")


# ── the page log ──

STEPS = """
from silkline import RetryLater

@crawl.handler
def page(page):
    if page.url.endswith("/1") and not seen:
        seen.append(page.url)
        raise RetryLater(0.01, "not complete yet")
    yield page.follow(page.css("a"))

seen = []
"""


def pages_of(told):
    return [entry for entry in told if entry["logger"] == "silkline.pages"]


def test_each_page_is_an_entry_with_its_fields(silkline, valkey, site, write):
    here = site({"/": "<a href=/1>1</a><a href=/gone>2</a>", "/1": "<h1>1</h1>"})
    file = write(here, STEPS)
    answer = silkline("run", file, "--log-json", "--log-level", "debug", "--redis", valkey.url)
    told = {(entry["url"].rpartition("/")[2], entry["event"]): entry for entry in pages_of(entries(answer.err))}
    assert told.keys() == {("", "fetched"), ("1", "retried"), ("1", "fetched"), ("gone", "failed")}
    first = told["", "fetched"]
    assert (first["level"], first["status"], first["bytes"], first["attempt"]) == ("debug", 200, 35, 1)
    assert first["handler"] == "page"
    assert first["seconds"] > 0
    assert (told["1", "retried"]["reason"], told["1", "retried"]["retry_in"]) == ("not complete yet", 0.01)
    assert told["1", "fetched"]["attempt"] == 2
    gone = told["gone", "failed"]
    assert (gone["level"], gone["status"]) == ("info", 404)
    assert "404" in gone["reason"]


def test_only_pages_that_failed_are_in_the_log_of_a_worker_and_none_in_that_of_a_run(
    silkline, valkey, site, write, enqueue, crawl
):
    here = site(chain(2))
    file = write(here)
    answer = silkline("run", file, "--redis", valkey.url)
    assert "page " not in answer.err
    assert enqueue(f"{here.url}3", f"{here.url}1?again").code == 0
    answer = silkline("worker", file, "--redis", valkey.url)
    assert "page fetched" not in answer.err
    assert answer.err.count(f"page failed: {here.url}3 (status 404, ") == answer.err.count("page failed: ") == 1
    assert "nothing to do" not in answer.err
    again = silkline("worker", file, "--redis", valkey.url)
    assert (again.code, f"{crawl} is finished: nothing to do" in again.err) == (0, True)


def test_a_handler_that_fails_on_every_page_is_logged_once_and_pauses_the_crawl(silkline, valkey, site, write, crawl):
    wrong = """
    @crawl.handler
    def page(page):
        yield page.follow(page.css("a"), product)

    @crawl.handler
    def product(page):
        page.css_first("h2").text()
    """
    here = site(chain(80))
    file = write(here, wrong)
    server = ("--redis", valkey.url)
    early = silkline("worker", file, *server, "--no-wait")
    assert (early.code, "working on" in early.err) == (2, False), "the crawl does not exist yet"
    assert silkline("start", file, *server).code == 0
    answer = silkline("worker", file, *server, handler_fails=True)
    assert answer.code == 1, "as run does"
    assert f"working on {crawl} at {valkey.url}, " in answer.err
    assert answer.err.count("page failed: ") == 1
    assert ", attempt 1: handler product: AttributeError (books.py:" in answer.err
    assert f"silkline dead revive {crawl} and silkline crawl resume {crawl}" in answer.err


@pytest.fixture
def text_log():
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    log_to_screen("info")
    yield
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def test_a_reason_from_the_web_can_neither_control_the_terminal_nor_look_like_an_entry(text_log, capsys):
    lease = Lease(
        request=Request("https://me:geheim@shop.example/"),
        shard=0,
        wire_token="1",
        host="shop.example",
        attempt=1,
        first=0,
        expires=0,
    )
    log_page(
        lease, Bury("to \x1b[2J\x07\n12:00:00 page fetched: https://bank.example/\u202e" + "x" * 5000, 301), "page"
    )
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()
    assert "geheim" not in text
    assert len(text) < 1000
    assert "page failed: https://me:***@shop.example/ (status 301, attempt 1, handler page: to \\x1b[2J" in text
