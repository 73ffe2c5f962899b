"""What is wrong with a crawl, decided from values alone: each notice appears, and disappears again."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from silkline.cli.main import app
from silkline.frontier.admin_verbs.audit import A_WORKER, AuditEntry
from silkline.frontier.admin_verbs.stats import Activity, CrawlStatus, Stats
from silkline.frontier.transport.server_info import Memory
from silkline.frontier.verbs.alerts import AlertState
from silkline.frontier.verbs.history import OTHERS, Counts, HandlerCounts
from silkline.frontier.verbs.workers import WorkerState
from silkline.ops.notices import NoticeKind, crawl_notices, memory_notice, urgency

NOW = 1_800_000_000.0
SOUND = Stats(
    crawl="shop", state="open", shards=1, accepted=500, ready=300, delayed=0, leased=4, held=4, done=196, dead=0, discarded=0,
    seen=500, overflow=0, rescued=0, full=False, capacity=1000, hosts_ready=3, hosts_waiting=1, expected_skips=0.0,
)  # fmt: skip
HEALTHY = Activity(
    workers=2, quiet=0, items=196, pages_per_second=1.0, lost=0, five_minutes=Counts(pages=100, ended=100, status_2xx=100),
    hour=Counts(pages=196, ended=196), had_work=True, time=NOW,
)  # fmt: skip


def status(paused_by=None, *, lately=None, hour=None, **changes):
    """A crawl that is sound, but for the changes."""
    of_stats = {name: value for name, value in changes.items() if name in Stats.__struct_fields__}
    of_activity = {name: value for name, value in changes.items() if name not in of_stats}
    if lately is not None:
        of_activity["five_minutes"] = Counts(**lately)
    if hour is not None:
        of_activity["hour"] = Counts(**hour)
    return CrawlStatus(msgspec.structs.replace(SOUND, **of_stats), HEALTHY._replace(**of_activity), paused_by)


def shown(*arguments, **changes):
    return [(notice.kind, notice.severe) for notice in crawl_notices(status(*arguments, **changes))]


def text_of(kind, *arguments, **changes):
    [found] = [notice for notice in crawl_notices(status(*arguments, **changes)) if notice.kind == kind]
    return found.sentence


def worker(*, alive=True, **info):
    return WorkerState("crawler-1:77", alive, NOW, NOW, info, "work")


def test_a_sound_crawl_has_none():
    assert shown() == []
    assert memory_notice(Memory(10**12, None)) is None


IDLE = {"workers": 0, "leased": 0, "held": 0}
FIRES = (AlertState("error-rate=20%", firing=True, text="25% failed", since=NOW),)
APPEARS = [
    ("alert", True, {"alerts": FIRES}, {"alerts": (AlertState("error-rate=20%"),)}),
    ("idle", True, IDLE, {"workers": 0}),
    ("idle", True, {**IDLE, "workers": 2, "quiet": 2}, {**IDLE, "workers": 2, "quiet": 1}),
    ("stalled", True, {"lately": {}}, {"lately": {"errors": 1}}),
    ("stalled", False, {"lately": {}, "hosts_ready": 0}, {"lately": {}, "hosts_ready": 0, "leased": 0, "held": 0}),
    ("stalled", True, {"lately": {}}, {"lately": {}, "had_work": False}),
    ("failing", True, {"lately": {"errors": 10}}, {"lately": {"errors": 9}}),
    ("failing", False, {"lately": {"errors": 51, "pages": 49}}, {"lately": {"errors": 50, "pages": 50}}),
    ("hosts", False, {"hosts_closed": 4}, {"hosts_closed": 3}),
    ("hosts", True, {"hosts_ready": 0, "hosts_closed": 1, "held": 0}, {"hosts_ready": 0, "hosts_closed": 0, "held": 0}),
    ("dead", False, {"dead": 30, "hour": {"buried": 20, "ended": 200}}, {"dead": 30, "hour": {"buried": 19, "ended": 200}}),
    ("hosts", False, {"hosts_closed": 5, "hosts_ready": 1, "hosts_waiting": 5}, {"hosts_closed": 4, "hosts_ready": 1, "hosts_waiting": 5}),
    ("dead", False, {"dead": 10, "hour": {"buried": 10, "ended": 100}}, {"dead": 9, "hour": {"buried": 9, "ended": 90}}),
    ("dead", True, {"dead": 1, "hour": {"buried": 1, "ended": 2}}, {"dead": 1, "hour": {"buried": 1, "ended": 3}}),
    ("dead", True, {"dead": 9, "hour": {"buried": 9, "ended": 9}}, {"dead": 0, "hour": {"buried": 9, "ended": 9}}),
    ("full", False, {"full": True}, {"full": True, "state": "cancelled"}),
    ("losses", False, {"losses": 1, "lost_at": NOW - 86_399}, {"losses": 1, "lost_at": NOW - 86_401}),
    ("lost_workers", False, {"lost": 1}, {"lost": 1, "ready": 0, "leased": 0, "held": 0}),
    ("paused", False, {"state": "paused"}, {"state": "paused", "ready": 0, "leased": 0, "held": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "severe", "wrong", "right"), APPEARS, ids=lambda value: str(value)[:40])
def test_each_appears_and_disappears(kind, severe, wrong, right):
    assert shown(**wrong) == [(kind, severe)]
    assert kind not in [found for found, _ in shown(**right)]


def test_a_server_is_almost_out_of_memory_before_it_is():
    assert memory_notice(Memory(949, 1000)) is None
    for used, words, severe in ((950, "almost out of memory (950 B of", False), (980, "is out of memory (980 B", True)):
        notice = memory_notice(Memory(used, 1000))
        assert words in notice.sentence
        assert notice.severe is severe


def test_what_pages_need_is_severe_if_no_worker_has_it():
    for met in (False, True):
        [notice] = crawl_notices(status(), [worker(gives_back={"handler:x": 41}), worker(handlers=["x"] * met)])
        assert (notice.kind, notice.severe) == ("needs", not met)
        assert notice.sentence.startswith("41 pages wait for a worker with a handler named 'x'")


def test_proxies_that_do_not_work_are_severe_if_no_worker_has_others():
    why = "the proxy http://proxy.example:8080 does not work: no connection: Connection refused"
    [notice] = crawl_notices(status(), [worker(proxies=why), worker(alive=False)])
    assert (notice.kind, notice.severe) == ("proxies", True)
    assert notice.sentence == f"pages wait, because {why}: see silkline proxy ls shop"
    [notice] = crawl_notices(status(), [worker(proxies=why), worker()])
    assert (notice.severe, notice.text) == (False, f"1 of 2 workers: pages wait, because {why}")
    assert crawl_notices(status(), [worker(), worker(alive=False, proxies=why)]) == []


def test_a_handler_without_a_page_is_unused_once_there_are_many_pages():
    workers = [worker(handlers=["listing", "product"]), worker(alive=False, handlers=["old"])]
    for pages, product, unused in (
        (100, {}, True),
        (99, {}, False),
        (100, {"product": HandlerCounts(failures=1)}, False),
    ):
        handlers = {"listing": HandlerCounts(pages=pages), **product}
        found = [notice.sentence for notice in crawl_notices(status(), workers, handlers)]
        told = "handler product got none of 100 pages: check that the selectors of the other handlers find its links"
        assert found == [told] * unused
    assert crawl_notices(status(), workers, {OTHERS: HandlerCounts(pages=100)}) == [], "it may be one of them"
    assert crawl_notices(status(), [worker()], {"listing": HandlerCounts(pages=100)}) == []


def test_every_kind_is_tested():
    assert {kind for kind, *_ in APPEARS} | {"memory", "forecast", "needs", "proxies", "unused"} == set(
        get_args(NoticeKind)
    )


def test_a_crawl_that_paused_itself_is_severe_and_has_the_reason():
    why = "the last 50 pages of handler product all failed with KeyError: 'price'"
    by_worker = AuditEntry(NOW, f"{A_WORKER}{why}", "pause", "")
    assert shown(by_worker, state="paused") == [("paused", True)]
    assert shown(by_worker, state="paused", ready=0, leased=0, held=0) == []
    assert text_of("paused", by_worker, state="paused").startswith(
        f"paused itself with 300 waiting requests, because {why}: "
    )
    by_mira = AuditEntry(NOW, "mira@ops", "pause", "")
    told = "paused by mira@ops with 300 waiting requests: continue with silkline crawl resume shop"
    assert text_of("paused", by_mira, state="paused") == told


def test_failures_of_hosts_and_of_handlers_lead_to_what_shows_them():
    for statuses, dead, page in (
        ({"status_5xx": 20}, 0, "hosts"),
        ({}, 0, "hosts"),
        ({}, 3, "dead"),
        ({"status_2xx": 25}, 0, "dead"),
    ):
        [notice] = crawl_notices(status(lately={"errors": 20, "pages": 5, **statuses}, dead=dead))
        assert (notice.page, f"silkline {page.removesuffix('s')} ls shop" in notice.sentence) == (f"/{page}", True)
        assert notice.text == "80 % of 25 attempts failed in the last 5 minutes"
    [notice] = crawl_notices(status(lately={"errors": 20})._replace(cause="dns: no address for …"))
    assert notice.text == "every attempt failed in the last 5 minutes, most of them dns: no address for …"


def test_texts_have_numbers_and_commands():
    assert text_of("idle", **IDLE) == "300 requests wait and no worker is running: start one with silkline worker FILE"
    assert text_of("hosts", hosts_closed=4) == (
        "4 of 4 hosts are blocked or slowed down for more than a minute: see silkline host ls shop"
    )
    assert text_of("dead", dead=112, hour={"buried": 112, "ended": 400}) == (
        "112 of 400 requests became dead letters in the last hour: see silkline dead ls shop"
    )
    assert text_of("full", full=True).endswith("or raise it with silkline crawl set shop --capacity 2000")
    told = "nothing ended in the last 5 minutes, although 2 workers run: see silkline workers ls shop"
    assert text_of("stalled", lately={}) == told
    assert text_of("lost_workers", lost=3) == "3 workers were lost in the last hour: see silkline workers ls shop"


@pytest.mark.parametrize("wrong", [case[2] for case in APPEARS], ids=lambda value: str(value)[:40])
def test_each_names_a_command_that_exists(wrong):
    [notice] = crawl_notices(status(**wrong))
    for text in (notice.remedy, notice.see):
        command = text.partition("silkline ")[2].replace("FILE", "shop.py").split()
        app.parse_args(command, exit_on_error=False, print_error=False)


def test_a_finished_crawl_only_mentions_its_dead_letters():
    over = {"ready": 0, "leased": 0, "held": 0, "workers": 0, "lost": 2, "full": True, "hosts_closed": 4, "lately": {}}
    assert shown(**over) == []
    assert shown(**over, dead=40, hour={"buried": 40, "ended": 90}) == [("dead", False)]


def test_severe_notices_and_crawls_come_first():
    half_dead = {"dead": 5, "hour": {"buried": 5, "ended": 10}}
    assert shown(state="paused", **half_dead) == [("dead", True), ("paused", False)]
    many = [status(), status(full=True), status(**IDLE)]
    assert [urgency(crawl_notices(one)) for one in many] == [2, 1, 0]
