"""Requests that wait or are in progress: listed, exported, dropped, and tried at once."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from html import unescape

import pytest

from silkline import Politeness, Request, SyncFrontier
from tests.dashboard.serving import Visitor


@pytest.fixture
def queue(store, crawl):
    """130 requests wait on one host, three on another; two are delayed, one is in progress."""
    with SyncFrontier.open(store.url, crawl=crawl, politeness=Politeness(delay=0, concurrency=50)) as frontier:
        frontier.enqueue("https://work.example/")
        [lease] = frontier.claim(1, lease=36_000)
        frontier.internal.join("w-1", info={"urls": [lease.url]}, expires=36_000)
        frontier.enqueue([f"https://a.example/{number}" for number in range(130)])
        frontier.enqueue([f"https://b.example/{number}" for number in range(3)])
        due = time.time() + 36_000
        frontier.enqueue([Request(f"https://c.example/{n}", not_before=due + n, handler="product") for n in range(2)])
        yield frontier
        frontier.admin.remove()


def rows(answer):
    return re.findall(r'class="lead"><span class="url"><a href="[^"]*" title="([^"]*)"', answer.text)


def next_page(answer):
    found = re.search(r'rel="next" href="([^"]*)"', answer.text)
    return unescape(found[1]) if found else ""


def picks(answer):
    found = re.findall(r'name="(pick-\d+)" value="([^"]*)"', answer.text)
    return {name: unescape(value) for name, value in found}


def form(answer, queue, **more):
    return {"csrf": answer.csrf, "crawl": queue.crawl, "state": "ready", **more}


def test_the_tabs_say_how_many_there_are(guest, queue):
    words = guest.get(f"/requests?crawl={queue.crawl}").words
    assert "In progress 1Waiting 133Delayed 2" in words
    assert "https://work.example/" in words
    assert "w-1" in words


def test_the_first_tab_that_is_not_empty_opens(guest, own_crawl):
    path = f"/requests?crawl={own_crawl.crawl}"
    assert guest.get(path).headers["location"].endswith(f"{path}&state=ready")
    leases = own_crawl.claim(100)
    assert "In progress" in guest.get(path).words
    for lease in leases:
        own_crawl.retry(lease, after=3600)
    assert own_crawl.admin.stats().ready == 0
    assert guest.get(path).headers["location"].endswith("&state=delayed")
    own_crawl.admin.cancel()
    assert guest.get(path).status == 200


def test_waiting_requests_are_listed_page_by_page(guest, queue):
    found, path = [], f"/requests?crawl={queue.crawl}&state=ready"
    sizes = []
    while path:
        answer = guest.get(path)
        assert answer.status == 200
        sizes.append(len(rows(answer)))
        found += rows(answer)
        path = next_page(answer)
    assert sizes == [50, 50, 33]
    assert len(set(found)) == 133
    only = guest.get(f"/requests?crawl={queue.crawl}&state=ready&host=b.example")
    assert rows(only) == [f"https://b.example/{number}" for number in range(3)]
    assert "3 waiting, 0 of 50 in flight" in only.words
    assert next_page(only) == ""


def test_delayed_requests_say_when_they_are_due(guest, queue):
    answer = guest.get(f"/requests?crawl={queue.crawl}&state=delayed")
    assert rows(answer) == ["https://c.example/0", "https://c.example/1"]
    assert "product" in answer.words
    assert "in 10.0 h" in answer.words
    assert "No request is delayed on this host" in guest.get(answer_path(queue, "delayed", "a.example")).words


def answer_path(queue, state, host):
    return f"/requests?crawl={queue.crawl}&state={state}&host={host}"


def test_an_export_has_the_whole_list(guest, queue):
    answer = guest.get(f"/requests/export?crawl={queue.crawl}&state=ready")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{queue.crawl}-ready.csv"'
    assert len({row["url"] for row in csv.DictReader(io.StringIO(answer.text))}) == 133
    lines = guest.get(f"/requests/export?crawl={queue.crawl}&state=delayed&format=jsonl")
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["url"] for line in lines.text.splitlines()] == [
        "https://c.example/0",
        "https://c.example/1",
    ]
    assert guest.get(f"/requests/export?crawl={queue.crawl}&format=xml").status == 400
    assert guest.get("/requests/export?crawl=nowhere").status == 404


def test_an_export_shows_no_passwords_and_runs_no_formula(guest, queue):
    queue.enqueue(Request("https://user:geheim@pass.example/", handler="=1+1"))
    answer = guest.get(f"/requests/export?crawl={queue.crawl}&state=ready&host=pass.example")
    [row] = csv.DictReader(io.StringIO(answer.text))
    assert "geheim" not in answer.text
    assert row["handler"] == "'=1+1"


def test_selected_rows_are_dropped_after_a_tick(operator, queue):
    page = operator.get(f"/requests?crawl={queue.crawl}&state=ready&host=a.example")
    chosen = dict(list(picks(page).items())[3:6])
    given = form(page, queue, host="a.example", **chosen)
    assert operator.post("/requests/drop", given).status == 400
    assert queue.admin.stats().ready == 133
    done = operator.post("/requests/drop", {**given, "sure": "yes"})
    page = operator.get(done.headers["location"])
    assert "Requests dropped: 3" in page.words
    assert [url.rpartition("/")[2] for url in rows(page)[:5]] == ["0", "1", "2", "6", "7"]
    assert (queue.admin.stats().ready, queue.admin.stats().discarded) == (130, 3)
    assert queue.admin.audit(limit=1)[0][1:] == ("mira@dashboard", "drop", "3 waiting of a.example")


def test_selected_delayed_requests_are_tried_now(operator, queue):
    page = operator.get(f"/requests?crawl={queue.crawl}&state=delayed")
    [first, _] = picks(page).items()
    done = operator.post("/requests/promote", form(page, queue, state="delayed", **dict([first])))
    assert "Requests that can be claimed now: 1" in operator.get(done.headers["location"]).words
    assert (queue.admin.stats().ready, queue.admin.stats().delayed) == (134, 1)
    assert queue.admin.audit(limit=1)[0][1:] == ("mira@dashboard", "promote", "1 delayed")
    assert [one.url for one in queue.admin.requests(host="c.example").requests] == ["https://c.example/0"]


def test_a_page_of_rows_fits_into_a_form(operator, queue):
    page = operator.get(f"/requests?crawl={queue.crawl}&state=ready&host=a.example")
    done = operator.post("/requests/drop", form(page, queue, sure="yes", **picks(page)))
    assert "Requests dropped: 50" in operator.get(done.headers["location"]).words


def test_without_a_selection_nothing_happens(operator, queue):
    page = operator.get(f"/requests?crawl={queue.crawl}&state=ready")
    done = operator.post("/requests/drop", form(page, queue, sure="yes"))
    assert "No request was selected." in operator.get(done.headers["location"]).words
    assert queue.admin.stats().ready == 133


@pytest.mark.parametrize("act", ["drop", "promote"])
def test_who_may_not_act_changes_nothing(guest, operator, locked_dashboard, queue, act):
    ids = {"pick-1": queue.admin.requests("delayed").requests[0].id, "sure": "yes", "crawl": queue.crawl}
    assert guest.post(f"/requests/{act}", ids).status == 403
    assert Visitor(locked_dashboard.port).post(f"/requests/{act}", ids).status == 401
    assert operator.post(f"/requests/{act}", {**ids, "csrf": "0" * 64}).status == 403
    csrf = operator.get("/").csrf
    assert operator.post(f"/requests/{act}", {**ids, "csrf": csrf}, Origin="https://evil.example").status == 403
    assert operator.post(f"/requests/{act}", {**ids, "csrf": csrf, "pick-1": "nonsense"}).status == 400
    assert queue.admin.stats().delayed == 2
    assert queue.admin.audit() == []


def test_a_guest_sees_no_boxes(guest, queue):
    assert picks(guest.get(f"/requests?crawl={queue.crawl}&state=ready")) == {}


@pytest.mark.parametrize("wrong", ["state=dead", "state=ready&after=x", "state=ready&host=a%20b"])
def test_nonsense_is_refused(guest, queue, wrong):
    assert guest.get(f"/requests?crawl={queue.crawl}&{wrong}").status == 400
