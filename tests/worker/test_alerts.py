"""Alerts: when they fire and end, and that the webhook gets each change once."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from silkline import Crawl, Frontier
from silkline.errors import ConfigError
from silkline.frontier.verbs.alerts import AlertState, pack_alerts, read_alerts
from silkline.frontier.verbs.history import Counts, Point
from silkline.frontier.verbs.hosts import HostState, StatusCounts
from silkline.frontier.verbs.workers import WorkerState
from silkline.ops.crawl_metrics import of_alerts
from silkline.ops.notices import crawl_notices
from silkline.sinks.sink import Record
from silkline.testing import LocalSite, SiteResponse
from silkline.worker.crawl.alerts import (
    ALERTS,
    WEBHOOK,
    AlertWatch,
    FieldCounter,
    Observed,
    Webhook,
    judge,
    next_states,
    read_alert,
)
from tests.worker.conftest import until

NOW = 1_800_000_000.0
ERRORS = read_alert("error-rate=20%")


def seen(lately=None, history=(), hosts=(), workers=()):
    return Observed(NOW, lately or Counts(), history, hosts, workers)


def host(name, bad, good, last=403):
    answers = StatusCounts(status_2xx=good, status_4xx=bad, last=last)
    return HostState(name, "ready", 0.0, 0, 0, 0.0, 1, 1, None, False, 0, answers=answers)


def worker(*, alive=True, **fields):
    return WorkerState("crawler-1:77", alive, NOW, NOW, {"fields": fields}, "work")


# ── rules ──


@pytest.mark.parametrize(
    ("rule", "kind", "field", "limit"),
    [
        ("error-rate=20%", "error-rate", "", 0.2),
        (" error-rate=0.5 ", "error-rate", "", 0.5),
        ("no-items=30m", "no-items", "", 1800),
        ("missing:price=10%", "missing", "price", 0.1),
        ("blocked=50%", "blocked", "", 0.5),
    ],
)
def test_rules_are_read(rule, kind, field, limit):
    assert read_alert(rule)[1:] == (kind, field, limit)


@pytest.mark.parametrize(
    "rule",
    ["", "errors=20%", "error-rate", "error-rate=many", "error-rate=100%", "error-rate=-1", "error-rate=nan", "missing=10%",
     "no-items=soon", "no-items=1s", "no-items=3d", "blocked:host=10%", 5],
)  # fmt: skip
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(ConfigError):
        Crawl("books", alerts=[rule])


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("errors=20%", "there is no alert 'errors=20%'"),
        ("error-rate=200%", "the share of the alert 'error-rate=200%' must be from 0% to below 100%, such as error-rate=20%"),
        ("missing:price=20", "such as missing:price=20%"),
        ("no-items=soon", "must be from 1m to 12h, such as no-items=30m"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_refused_with_what_to_write_instead(rule, told):
    with pytest.raises(ConfigError, match=told):
        read_alert(rule)


# ── judging ──


def test_the_error_rate_fires_above_its_limit_and_ends_well_below_it():
    def after(before, errors, pages):
        return next_states([ERRORS], before, seen(Counts(errors=errors, pages=pages)), calls=True)

    [state] = quiet = after([], 4, 16)
    assert (state.firing, state.pending) == (False, False)
    [state] = firing = after(quiet, 5, 15)
    assert (state.firing, state.pending, state.since) == (True, True, NOW)
    assert state.text == "25% of 20 attempts failed in the last five minutes"
    assert after(firing, 19, 81) == firing, "a little below"
    assert after(firing, 1, 2) == firing, "too few to judge"
    [state] = after(firing, 16, 84)
    assert (state.firing, state.pending) == (False, True)


def test_no_items_counts_from_the_first_page_after_the_last_item():
    alert = read_alert("no-items=5m")

    def fires(*steps):
        points = [Point(time=NOW - age, step=10.0, pages=pages, items=items) for age, pages, items in steps]
        return judge(alert, seen(history=points)).fires

    assert fires((590, 3, 3), (310, 3, 0), (10, 1, 0))
    assert not fires((590, 3, 3), (290, 3, 0), (10, 1, 0))
    assert not fires((590, 3, 0), (310, 3, 1), (10, 0, 0)), "nothing was fetched since"
    assert not fires()


def test_a_missing_field_is_summed_over_live_workers():
    alert = read_alert("missing:price=10%")
    workers = [worker(price=[15, 1]), worker(price=[15, 3]), worker(alive=False, price=[99, 99]), worker(price="?")]
    found = judge(alert, seen(workers=workers))
    assert (found.fires, found.text) == (True, "the field price is missing on 13% of the recent items")
    assert judge(alert, seen(workers=[worker(price=[19, 19])])) is None
    assert judge(alert, seen(workers=[worker(name=[90, 90])])) is None


def test_a_host_that_blocks_is_named():
    alert = read_alert("blocked=50%")
    found = judge(alert, seen(hosts=[host("a.example", 15, 10), host("b.example", 5, 20), host("c.example", 30, 0)]))
    assert (found.fires, found.text) == (
        True,
        "c.example replies with 4xx to 100% of the recent requests, and 1 other hosts",
    )
    assert not judge(alert, seen(hosts=[host("a.example", 12, 13)])).fires
    assert judge(alert, seen(hosts=[host("a.example", 9, 0)])) is None


async def test_fields_without_a_value_are_counted_and_fade():
    counter = FieldCounter(["price"])
    items = [{"price": 3}, {"price": 0}, {"price": None}, {"price": ""}, {}]
    await counter.write([Record(str(number), "https://a.example/", item) for number, item in enumerate(items)])
    assert counter.report() == {"price": [5, 3]}
    for _ in range(60):
        counter.report()
    assert counter.report()["price"][0] < 2.5


def test_states_of_a_later_version_are_left_alone():
    states = (AlertState("error-rate=20%", firing=True, text="x", since=NOW, pending=True),)
    assert read_alerts(pack_alerts(states)) == states
    assert read_alerts(b"") == read_alerts(b"{") == read_alerts(b'[{"rule": 5}]') == ()


# ── watching ──


def bodies(site):
    return [json.loads(visit.body) for visit in site.visits.to(path="/hook")]


@asynccontextmanager
async def watching(*watches):
    tasks = [asyncio.create_task(watch.run(every=0.05)) for watch in watches]
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until_status(frontier, holds):
    """Wait until the alerts that fire are as wanted."""
    while not holds((await frontier.admin.status()).activity.firing):  # noqa: ASYNC110 - another task changes it
        await asyncio.sleep(0.01)


async def test_two_workers_call_the_webhook_once_for_each_change(valkey, crawl):
    async with (
        LocalSite({"/hook": "ok"}) as site,
        await Frontier.open(valkey.url, crawl=crawl) as one,
        await Frontier.open(valkey.url, crawl=crawl) as other,
    ):
        await one.internal.add_history(Counts(pages=10, errors=90), None, {})
        watches = [AlertWatch(each, [ERRORS], Webhook(site.at("/hook?key=secret"))) for each in (one, other)]
        async with watching(*watches):
            await until(lambda: site.visits.to(path="/hook"))
            await one.internal.add_history(Counts(pages=10_000), None, {})
            await until(lambda: len(site.visits.to(path="/hook")) >= 2)
            await asyncio.sleep(0.3)  # further looks, at which nothing has changed
        assert [(body["state"], body["alert"], body["crawl"]) for body in bodies(site)] == [
            ("firing", "error-rate=20%", crawl),
            ("resolved", "error-rate=20%", crawl),
        ]


async def test_a_webhook_that_is_down_is_called_until_it_accepts_also_by_the_next_worker(valkey, crawl, caplog):
    async with LocalSite({"/hook": SiteResponse("no", status=503)}) as site:
        async with await Frontier.open(valkey.url, crawl=crawl) as frontier:
            await frontier.internal.add_history(Counts(errors=90), None, {})
            async with watching(AlertWatch(frontier, [ERRORS], Webhook(site.at("/hook/secret?key=secret")))):
                await until(lambda: len(site.visits) >= 2)
            status = await frontier.admin.status()
            assert [state.pending for state in status.activity.firing] == [True]
        site.routes["/hook"] = site.routes["/hook/secret"] = "ok"
        async with (
            await Frontier.open(valkey.url, crawl=crawl) as frontier,
            watching(AlertWatch(frontier, [ERRORS], Webhook(site.at("/hook")))),
        ):
            await until(lambda: bodies(site))
            await until_status(frontier, lambda firing: not firing[0].pending)
        assert len(bodies(site)) == 1
        assert len({json.loads(visit.body)["id"] for visit in site.visits}) == 1, "the same change"
    assert "the alert webhook at 127.0.0.1 failed" in caplog.text
    assert "secret" not in caplog.text
    assert "secret" not in repr(Webhook("https://hooks.example/secret"))


async def test_a_worker_that_has_lost_the_lock_stores_nothing(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl) as frontier:
        await frontier.internal.add_history(Counts(errors=90), None, {})
        watch, lock = AlertWatch(frontier, [ERRORS]), frontier.lock("crawl:alerts")
        old = await lock.acquire(wait=0)
        await old.release()
        new = await lock.acquire(wait=0)
        newest = pack_alerts([AlertState("error-rate=20%")])
        await frontier.internal.feed_position(ALERTS, new.token, newest)
        assert not await watch.look(old)
        assert await frontier.internal.feed_position(ALERTS) == newest
        assert await watch.look(new)
        await new.release()


async def test_an_unhealthy_crawl_has_a_notice_and_a_metric(valkey, crawl):
    async with await Frontier.open(valkey.url, crawl=crawl) as frontier:
        await frontier.enqueue("https://a.example/")
        await frontier.internal.add_history(Counts(errors=90), None, {})
        async with watching(AlertWatch(frontier, [ERRORS, read_alert("blocked=50%")])):
            await until_status(frontier, bool)
        status = await frontier.admin.status()
    [notice] = [notice for notice in crawl_notices(status) if notice.kind == "alert"]
    assert notice.severe
    assert "100% of 90 attempts failed in the last five minutes (alert error-rate=20%)" in notice.sentence
    assert [(sample.labels["alert"], sample.value) for sample in of_alerts(status).samples] == [
        ("error-rate=20%", True),
        ("blocked=50%", False),
    ]


async def test_a_crawl_reports_missing_fields_and_uses_the_webhook_of_the_environment(
    serve, valkey, new_crawl, run, monkeypatch
):
    site = await serve({"/": "".join(f"<a href=/{number}>x</a>" for number in range(40)), "/*": "x", "/hook": "ok"})
    monkeypatch.setenv(WEBHOOK, site.at("/hook"))
    monkeypatch.setattr("silkline.worker.crawl.alerts.LOOK_EVERY", 0.05)
    monkeypatch.setattr(AlertWatch.run, "__defaults__", (0.05,))
    monkeypatch.setattr("silkline.runtime.presence.EVERY", 0.1)
    crawl = new_crawl(site.url, alerts=["missing:price=10%"])

    @crawl.handler
    async def parse(page):
        yield {"url": page.url, "price": None}
        yield page.follow(page.css("a"))
        if page.url.endswith("/39"):
            await until(lambda: site.visits.to(path="/hook"))

    done = await run(crawl)
    assert len(done.items) == 41
    [call] = bodies(site)
    assert call["text"].endswith("the field price is missing on 100% of the recent items")


@pytest.mark.parametrize("address", ["hooks.example/x", "ftp://hooks.example/", "file:///etc/passwd", "https://?key=x"])
def test_a_wrong_webhook_is_refused_without_showing_it(monkeypatch, address):
    monkeypatch.setenv(WEBHOOK, address)
    with pytest.raises(
        ConfigError, match="SILKLINE_ALERT_WEBHOOK must be an address that begins with https://"
    ) as error:
        Webhook.from_environment()
    assert address not in str(error.value)
