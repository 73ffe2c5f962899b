"""What no browser would send is answered in a sentence, too."""

from __future__ import annotations

import socket
from urllib.parse import urlencode

import pytest

from silkline.dashboard import app
from tests.dashboard.serving import TOKEN


def raw(serving, *lines, body=b""):
    """An answer to what no client library would send: its status, and what it says."""
    with socket.create_connection(("127.0.0.1", serving.port), 20) as plug:
        head = [*lines, "Connection: close", *([f"Content-Length: {len(body)}"] if body else [])]
        plug.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + body)
        answer = b"".join(iter(lambda: plug.recv(65536), b""))
    head, _, text = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), text.decode()


@pytest.mark.parametrize("host", ["[", "[::1", "a b]", "localhost:many", "localhost:99999"])
def test_a_host_that_is_none_is_reported_in_a_sentence(open_dashboard, locked_dashboard, host):
    for serving in (open_dashboard, locked_dashboard):
        status, text = raw(serving, "GET /hosts HTTP/1.1", f"Host: {host}", "Accept: text/html")
        assert status == 400, text
        assert "Host" in text


@pytest.mark.parametrize("next_page", ["//[", "/hosts?q=[", "http://[", "//[::1", "/\\["])
def test_a_way_back_that_is_none_is_forgotten(stranger, next_page):
    assert stranger.get(f"/sign-in?{urlencode({'next': next_page})}").status == 200
    assert stranger.sign_in(next=next_page).status == 303


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "[", ""])
def test_an_origin_that_is_none_is_another_site(operator, own_crawl, origin):
    form = {"csrf": operator.get("/").csrf}
    answer = operator.post(f"/crawls/{own_crawl.crawl}/pause", form, Origin=origin)
    assert answer.status == 403
    assert "another site" in answer.words
    assert own_crawl.admin.stats().state == "open"


@pytest.mark.parametrize(
    "query",
    [
        f"status={'9' * 5000}",
        f"older={'9' * 5000}",
        f"newer={'9' * 300}d",
        f"id={'9' * 5000}-1",
        "id=%C2%B2-%C2%B2",
        "status=-1",
    ],
)
def test_numbers_of_any_length_are_answered_in_a_sentence(guest, query):
    for path in ("/dead", "/dead/revive"):
        answer = guest.get(f"{path}?crawl=books&{query}")
        assert answer.status == 400
        assert "got" in answer.words
        assert len(answer.words) < 2000


def test_numbers_of_any_length_in_a_form(operator, own_crawl):
    form = {"csrf": operator.get("/").csrf, "crawl": own_crawl.crawl, "host": "a.example"}
    for field in ("delay", "concurrency", "burst"):
        assert operator.post("/host/set", {**form, field: "9" * 5000}).status == 400


async def test_bytes_in_an_address_that_are_no_text():
    """Some servers let them through; spoken to as they would."""
    scope = {"type": "http", "method": "GET", "path": "/hosts", "root_path": "", "query_string": b"q=\xff\xfe"}
    scope |= {"headers": [(b"host", b"localhost"), (b"accept", b"text/html")], "scheme": "http", "http_version": "1.1"}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app(None, token=TOKEN)(scope, receive, send)
    assert sent[0]["status"] == 303
    assert dict(sent[0]["headers"])[b"location"].startswith(b"/sign-in?next=%2Fhosts%3Fq%3D")
