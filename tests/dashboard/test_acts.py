"""What operators can do, and that it is noted who did it."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from silkline import Bury, Request
from silkline.core.lease import State
from silkline.scrapy.dupefilter import identities_of


def last_act(frontier):
    return frontier.admin.audit(limit=1)[0]


def test_pause_and_resume(operator, own_crawl):
    path = f"/crawls/{own_crawl.crawl}"
    answer = operator.post(f"{path}/pause", {"csrf": operator.get(path).csrf})
    assert answer.status == 303
    page = operator.get(answer.headers["location"])
    assert "Crawl paused. Workers finish the requests in progress." in page.words
    assert "paused by mira@dashboard" in page.words
    assert own_crawl.admin.stats().state == "paused"
    operator.post(f"{path}/resume", {"csrf": page.csrf})
    assert own_crawl.admin.stats().state == "open"
    assert last_act(own_crawl)[1:] == ("mira@dashboard", "resume", "")


def test_cancel_and_remove_want_the_name(operator, own_crawl):
    name = own_crawl.crawl
    page = operator.get(f"/crawls/{name}/cancel")
    assert "4 queued requests will be dropped" in page.words
    assert operator.post(f"/crawls/{name}/cancel", {"csrf": page.csrf}).status == 400
    assert own_crawl.admin.stats().state == "open"
    done = operator.post(f"/crawls/{name}/cancel", {"csrf": page.csrf, "name": name})
    assert "Cancelled. Requests dropped: 4" in operator.get(done.headers["location"]).words
    assert own_crawl.admin.stats().state == "cancelled"
    page = operator.get(f"/crawls/{name}/remove")
    assert operator.post(f"/crawls/{name}/remove", {"csrf": page.csrf, "name": "other"}).status == 400
    assert operator.post(f"/crawls/{name}/remove", {"csrf": page.csrf, "name": name}).status == 303
    assert operator.get(f"/crawls/{name}").status == 404
    assert name in operator.get("/audit").words


def test_revive_counts_first_and_then_revives_what_matches(operator, own_crawl):
    name = own_crawl.crawl
    listed = operator.get(f"/dead?crawl={name}&status=503")
    link = re.search(r'href="([^"]*/dead/revive[^"]*)"', listed.text)[1].replace("&amp;", "&")
    asked = operator.get(link)
    assert "Revive 8 dead letters?" in asked.words
    assert own_crawl.admin.stats().dead == 16, "nothing is done before it is confirmed"
    form = dict(
        re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', asked.text.partition("/dead/revive")[2])
    )
    assert form["status"] == "503"
    done = operator.post("/dead/revive", form)
    assert "Dead letters revived: 8" in operator.get(done.headers["location"]).words
    assert own_crawl.admin.stats().dead == 8
    assert last_act(own_crawl)[1:] == ("mira@dashboard", "revive", "--status 503: 8")


def test_purge_wants_a_tick(operator, own_crawl):
    form = {"csrf": operator.get("/").csrf, "crawl": own_crawl.crawl, "host": "a.example"}
    assert operator.post("/dead/purge", form).status == 400
    assert own_crawl.admin.stats().dead == 16
    assert operator.post("/dead/purge", {**form, "sure": "yes"}).status == 303
    assert own_crawl.admin.stats().dead == 6
    assert own_crawl.admin.dead_groups("host")[0].name == "b.example"


def test_the_pace_of_a_host(operator, own_crawl):
    form = {"csrf": operator.get("/").csrf, "crawl": own_crawl.crawl, "host": "a.example"}
    operator.post("/host/set", {**form, "delay": "2.5", "concurrency": "7", "burst": ""})
    [host] = own_crawl.admin.hosts("a.example")
    assert (host.delay, host.concurrency) == (2.5, 7)
    assert last_act(own_crawl).about == "a.example delay=2.5 concurrency=7 burst=default"
    operator.post("/host/block", {**form, "for": "2h"})
    assert own_crawl.admin.hosts("a.example")[0].blocked_until
    operator.post("/host/unblock", form)
    assert own_crawl.admin.hosts("a.example")[0].blocked_until is None
    operator.post("/host/pause", form)
    assert own_crawl.admin.hosts("a.example")[0].paused
    operator.post("/host/resume", form)
    assert not own_crawl.admin.hosts("a.example")[0].paused
    assert operator.post("/host/set", {**form, "delay": "soon"}).status == 400
    assert operator.post("/host/set", {**form, "concurrency": "-1"}).status == 400


def test_forget_and_add(operator, own_crawl):
    lease = own_crawl.claim()[0]
    own_crawl.complete(lease)
    form = {"csrf": operator.get("/").csrf, "crawl": own_crawl.crawl, "url": lease.url}
    seen = operator.post("/requests/add", form)
    assert "was seen before" in operator.get(seen.headers["location"]).words
    operator.post("/requests/forget", form)
    assert own_crawl.admin.explain(lease.url).state is None
    operator.post("/requests/add", form)
    assert own_crawl.admin.explain(lease.url).state is State.READY
    assert [act.what for act in own_crawl.admin.audit()] == ["add", "forget"]


@pytest.mark.parametrize("number", [0, 1])
def test_what_a_spider_has_done_is_found_and_forgotten(operator, own_crawl, number):
    url = "https://spider.example/done?b=2&a=1"
    own_crawl.enqueue(Request(url, identity=identities_of(url)[number], priority=9))
    own_crawl.complete(own_crawl.claim(1)[0])
    where = f"/requests?{urlencode({'crawl': own_crawl.crawl, 'url': url})}"
    found = operator.get(where)
    assert "done: it was seen" in found.words
    form = {"csrf": found.csrf, "crawl": own_crawl.crawl, "url": url}
    assert (
        "Removed from the seen filter"
        in operator.get(operator.post("/requests/forget", form).headers["location"]).words
    )
    assert "never seen" in operator.get(where).words
    assert last_act(own_crawl)[2:] == ("forget", url)
    assert (
        "The URL was not in the seen filter"
        in operator.get(operator.post("/requests/forget", form).headers["location"]).words
    )
    assert operator.post("/requests/forget", {**form, "url": "nonsense"}).status == 400


def test_workers_are_reported(operator, own_crawl):
    own_crawl.internal.join("w-1", expires=600)
    form = {"csrf": operator.get("/").csrf, "crawl": own_crawl.crawl, "worker": "w-1"}
    operator.post("/workers/order", {**form, "order": "quiet"})
    assert own_crawl.internal.ordered("w-1") == "quiet"
    assert "quiet" in operator.get(f"/workers?crawl={own_crawl.crawl}").words
    assert operator.post("/workers/order", {**form, "order": "dance"}).status == 400
    gone = operator.post("/workers/order", {**form, "worker": "w-2", "order": "stop"})
    assert "no longer exists" in operator.get(gone.headers["location"]).words
    assert last_act(own_crawl)[1:] == ("mira@dashboard", "quiet worker", "w-1"), "as the command line notes it"


def test_a_worker_is_stopped_after_a_confirmation(operator, own_crawl):
    own_crawl.internal.join("w-1", info={"errors": 7}, expires=600)
    shown = operator.get(f"/workers?crawl={own_crawl.crawl}")
    [ask] = re.findall(r'href="([^"]*/workers/stop[^"]*)"', shown.text)
    assert f'href="/dead?crawl={own_crawl.crawl}"' in shown.text, "the errors lead to the dead letters"
    asked = operator.get(unescape(ask))
    assert "It is the only one that runs" in asked.words
    assert own_crawl.internal.ordered("w-1") == "work"
    form = {"csrf": asked.csrf, "crawl": own_crawl.crawl, "worker": "w-1", "shown": own_crawl.crawl, "order": "stop"}
    assert operator.post("/workers/order", form).status == 303
    assert own_crawl.internal.ordered("w-1") == "stop"
    gone = operator.get(f"/workers/stop?crawl={own_crawl.crawl}&worker=w-9")
    assert "said=gone" in gone.headers["location"]


def test_settings_of_a_crawl_are_changed_and_a_lower_limit_is_confirmed(operator, own_crawl):
    path = f"/crawls/{own_crawl.crawl}"
    page = operator.get(path)
    assert "Change settings" in page.words
    done = operator.post(f"{path}/set", {"csrf": page.csrf, "max_pages": "50", "sure": "yes", "delay": " 0.25 "})
    assert done.status == 303
    page = operator.get(done.headers["location"])
    assert "The settings of the crawl were changed." in page.words
    assert "50 pages" in page.words
    own_crawl.refresh()
    assert (own_crawl.layout.settings.budget.pages, own_crawl.layout.settings.politeness.delay) == (50, 0.25)
    assert last_act(own_crawl)[1:3] == ("mira@dashboard", "set")
    lower = operator.post(f"{path}/set", {"csrf": page.csrf, "max_pages": "5"})
    assert lower.status == 400
    assert operator.post(f"{path}/set", {"csrf": page.csrf, "max_pages": "none"}).status == 303
    assert operator.post(f"{path}/set", {"csrf": page.csrf, "max_pages": "x"}).status == 400
    assert operator.post(f"{path}/set", {"csrf": page.csrf, "dead_limit": "9"}).status == 400
    assert operator.post(f"{path}/set", {"csrf": page.csrf, "dead_limit": "9", "sure": "yes"}).status == 303
    assert "9 dead letters" in operator.get(path).text
    own_crawl.admin.set_dead_limit(1)
    own_crawl.admin.set_host("dead.example", delay=0, concurrency=5)
    own_crawl.enqueue([f"https://dead.example/{n}" for n in range(3)])
    own_crawl.settle([(lease, Bury("no")) for lease in own_crawl.claim(100)])
    dropped = own_crawl.admin.stats().dead_dropped
    assert dropped
    for where in (path, f"/dead?crawl={own_crawl.crawl}"):
        assert f"{dropped} older dead letters were dropped beyond the limit of 1." in operator.get(where).words
    assert operator.post(f"{path}/set", {"csrf": page.csrf, "dead_limit": "none"}).status == 303
    assert operator.post(f"{path}/set", {"csrf": page.csrf}).status == 400
    assert operator.post(f"{path}/set", {"max_pages": "9"}).status == 403
    own_crawl.refresh()
    assert own_crawl.layout.settings.budget.pages is None
