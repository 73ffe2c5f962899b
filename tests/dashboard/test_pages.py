"""Every page, over plain HTTP."""

from __future__ import annotations

import pytest

from silkline import SyncFrontier
from silkline.dashboard import app
from silkline.frontier.verbs.history import Counts
from tests.dashboard.serving import Serving, Visitor, patient
from tests.servers import Server

PAGES = {
    "/": "Throughput",
    "/?range=day": "Throughput",
    "/?crawl=books": "Oldest ready",
    "/crawls": "books",
    "/crawls/books": "Dead letters by reason",
    "/hosts?crawl=books": "shop.example",
    "/host?crawl=books&host=library.example": "Disallow: /cellar",
    "/requests": "In progress",
    "/requests?url=https://shop.example/page/8": "ready: number",
    "/dead?crawl=books": "HTTP 404",
    "/dead?crawl=books&status=503": "Matches",
    "/dead/revive?crawl=books": "Revive 2 dead letters?",
    "/workers": "crawler-1:77",
    "/redis": "Checks",
    "/audit": "jonas@ops",
}


@pytest.mark.parametrize(("path", "words"), PAGES.items())
def test_every_page_opens_and_says_what_it_is_for(guest, path, words):
    answer = guest.get(path)
    assert answer.status == 200, answer.text
    assert words in answer.words


def test_the_overview_adds_up(guest):
    words = guest.get("/?crawl=books").words
    for told in ("ready 37", "delayed 1", "leased 4", "done 1", "dead 2", "2.2%of links seen before"):
        assert told.replace(" ", "") in words.replace(" ", ""), told


def test_a_crawl_reports_what_each_handler_did(guest):
    words = guest.get("/crawls/books").words.replace(" ", "")
    assert "HandlerPagesItemsFailuresExceptionsDeadp50p95" in words
    assert "product" + "28" + "28,000" + "3" + "1" + "2" + "18ms" + "2.27s" in words
    assert "listing" + "2" + "0" + "0" + "0" + "0" + "18ms" + "24ms" in words


def test_hosts_tell_what_holds_them_back(guest):
    words = guest.get("/hosts?crawl=books").words
    assert "30 s" in words  # the delay of slow.example
    assert "delay 5 s" in words  # robots.txt of library.example
    assert "for 10 days" in words


def test_hosts_tell_what_they_answered(guest):
    page = guest.get("/hosts?crawl=books")
    assert "97 % 2xx · 3 % 5xx" in page.words
    assert "60 % 2xx · 2 % 3xx · 30 % 4xx · 6 % 5xx · 2 % failed" in page.words
    one = guest.get("/host?crawl=books&host=library.example").words
    assert "Of the last 100, older ones weigh less. Last: 429, reported" in one
    assert "None yet. Silkline workers report" in guest.get("/host?crawl=books&host=slow.example").words


def test_hosts_in_trouble_come_first_if_one_wants_that(guest):
    usual, troubled = (guest.get(f"/hosts?crawl=books&sort={sort}").words for sort in ("", "trouble"))
    assert troubled.index("library.example") < troubled.index("shop.example") < troubled.index("slow.example")
    assert "longest queue first" in usual
    assert "highest error rate first" in troubled


def test_a_host_that_is_done_is_found_by_its_name(guest):
    assert "100 % failed" in guest.get("/hosts?crawl=books&q=gone.example").words


@pytest.mark.parametrize(
    ("query", "there", "not_there"),
    [
        ("q=slow", "slow.example", "shop.example"),
        ("place=paused", "paused.example", "shop.example"),
        ("blocked=1", "blocked.example", "shop.example"),
    ],
)
def test_hosts_are_filtered_by_the_address_of_the_page(guest, query, there, not_there):
    words = guest.get(f"/hosts?crawl=books&{query}").words
    assert there in words
    assert not_there not in words


def test_a_paused_host_says_by_whom(guest):
    assert "The host is paused (by jonas@ops" in guest.get("/host?crawl=books&host=paused.example").words


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://shop.example/nowhere", "never seen"),
        ("https://library.example/cellar/1", "robots.txt forbids it"),
        ("ftp://shop.example/", "Not a valid URL"),
    ],
)
def test_the_search_box_explains(guest, url, words):
    answer = guest.get(f"/requests?url={url}")
    assert answer.status == 200
    assert words in answer.words


def test_workers_tell_of_themselves(guest):
    words = guest.get("/workers").words
    for told in ("9.9.9", "150 MiB", "1,234", "2.5/s", "https://"):
        assert told in words


def test_the_letters_of_a_filter_and_one_letter(guest, monkeypatch):
    monkeypatch.setattr("silkline.dashboard.views.dead.LOOKED_AT", 1)
    newest = guest.get("/dead?crawl=books&status=418")
    assert "Searched the newest 1 of 2 only." in newest.words
    assert "Searched the newest" not in guest.get("/dead?crawl=books&status=418&all=1").words
    monkeypatch.undo()
    listed = guest.get("/dead?crawl=books&status=404")
    assert "HTTP 404" in listed.words
    assert "HTTP 503" not in listed.words
    assert "dropped" not in listed.words
    link = listed.text.partition("/dead/letter?")[2].partition('"')[0].replace("&amp;", "&")
    assert "Attempts" in guest.get(f"/dead/letter?{link}").words


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/crawls/nothing", 404, "there is no crawl nothing"),
        ("/hosts?crawl=nothing", 404, "this server has no crawl named 'nothing'"),
        ("/crawls/..%2f", 404, "Not found"),
        ("/dead?crawl=books&status=many", 400, "a status must be a number"),
        ("/dead?crawl=books&older=long", 400, "must be a time such as"),
        ("/dead/letter?crawl=books&id=0-1", 404, "does not exist"),
        ("/nowhere", 404, "Not found"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(guest, path, status, words):
    answer = guest.get(path)
    assert answer.status == status
    assert words in answer.words


def test_a_page_refreshes_only_its_own_matter(guest):
    answer = guest.get("/hosts?crawl=books", Silkline_Live="1")
    assert "shop.example" in answer.text
    assert "<nav" not in answer.text
    assert "<html" not in answer.text


def test_empty_states_say_what_to_do_and_a_lost_server_is_reported():
    server = Server("valkey").start()
    try:
        with Serving(patient(app(server.url))) as serving:
            visitor = Visitor(serving.port)
            for path in ("/", "/crawls", "/hosts", "/dead"):
                assert "silkline init books.py" in visitor.get(path).words
            assert "silkline worker" in visitor.get("/workers").words
            assert "No actions" in visitor.get("/audit").words
            assert visitor.get("/redis").status == 200
            server.kill()
            lost = visitor.get("/")
            assert lost.status == 503
            assert "Redis is unavailable" in lost.words
            assert visitor.get("/healthz").status == 200
    finally:
        server.remove()


def test_static_files_are_kept_by_browsers_and_pages_are_not(guest):
    assert "max-age" in guest.get("/static/silkline.css").headers["cache-control"]
    assert guest.get("/").headers["cache-control"] == "no-store"
    assert guest.get("/static/../application.py").status == 404
    assert guest.get("/static/%2e%2e/application.py").status == 404


def test_nothing_is_fetched_from_elsewhere(guest):
    for path in PAGES:
        text = guest.get(path).text
        for mark in ('src="http', "<style", " style=", "<script>", "onclick", 'stylesheet" href="http'):
            assert mark not in text, path


@pytest.mark.parametrize("kind", ["cluster", "redis-6.2"])
def test_other_kinds_of_server_are_shown_too(servers, kind, crawl):
    server = servers(kind)
    with SyncFrontier.open(server.url, crawl=crawl, shards=4) as frontier:
        frontier.enqueue([f"https://h{number}.example/" for number in range(20)])
        frontier.bury(frontier.claim()[0], "HTTP 404", 404)
    with Serving(patient(app(server.url))) as serving:
        visitor = Visitor(serving.port)
        for path in (
            "/",
            "/crawls",
            f"/crawls/{crawl}",
            "/hosts",
            "/requests?state=ready",
            "/dead",
            "/workers",
            "/audit",
            "/metrics",
        ):
            assert visitor.get(path).status == 200, path
        assert "4, the fullest has" in visitor.get(f"/redis?crawl={crawl}").words
        assert "ready: number 1 of 1" in visitor.get(f"/requests?crawl={crawl}&url=https://h7.example/").words


def test_a_crawl_whose_server_lost_writes_says_so(guest, store, own_crawl):
    assert "lost its last writes" not in guest.get(f"/crawls/{own_crawl.crawl}").words
    with store.client() as client:
        client.hset(own_crawl.layout.shards[0].ledger, mapping={"losses": 1, "lost_at": 1_800_000_000_000})
    told = "the server lost its last writes at 2027-01-15 08:00:00 UTC, after a failover or restart; some pages may be fetched again"
    assert told in guest.get(f"/crawls/{own_crawl.crawl}").words


def test_an_idle_crawl_has_a_banner_that_says_how_to_start_a_worker(guest, own_crawl):
    told = "4 requests wait and no worker is running: start one with silkline worker FILE"
    for path in ("/", f"/?crawl={own_crawl.crawl}", f"/crawls/{own_crawl.crawl}"):
        assert told in guest.get(path).words, path
    own_crawl.internal.join("w-1")
    page = guest.get(f"/crawls/{own_crawl.crawl}").words
    assert "requests wait" not in page
    assert "running" in page


def test_crawls_in_trouble_come_first_with_a_reason(guest, own_crawl):
    own_crawl.internal.add_history(Counts(buried=9, ended=10), None)
    for path in ("/", "/crawls"):
        text = guest.get(path).text
        assert text.index(f'/crawls/{own_crawl.crawl}">') < text.index('/crawls/books">'), path
        [row] = [row for row in text.split("<tr>") if f'/crawls/{own_crawl.crawl}">' in row and "data-label" in row]
        assert '<small class="notice severe">no worker</small>' in row
    page = guest.get(f"/crawls/{own_crawl.crawl}")
    assert "9 of 10 requests became dead letters in the last hour" in page.words
    assert f'href="/dead?crawl={own_crawl.crawl}">Dead letters</a></p>' in page.text
    own_crawl.admin.purge()
    assert "became dead letters" not in guest.get(f"/crawls/{own_crawl.crawl}").words


def test_a_server_without_memory_has_a_banner(guest, store):
    with store.client() as client:
        client.config_set("maxmemory", client.info("memory")["used_memory"])
        try:
            page = guest.get("/")
        finally:
            client.config_set("maxmemory", 0)
    assert "out of memory (" in page.words
    assert '<a class="more" href="/redis">Redis</a>' in page.text
    assert "out of memory (" not in guest.get("/").words


def test_the_list_of_crawls_has_their_state_workers_and_items(guest, own_crawl):
    own_crawl.internal.add_history(Counts(pages=1, items=4321), None)
    text = guest.get("/crawls").text
    [row] = [row for row in text.split("<tr>") if f">{own_crawl.crawl}</a>" in row]
    assert ">idle</span>" in row
    assert ">4,321<" in row
    [books] = [row for row in text.split("<tr>") if ">books</a>" in row]
    assert ">running</span>" in books
    assert '<td data-label="Workers" class="n">1</td>' in books
