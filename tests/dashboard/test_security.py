"""Who may look, who may act, and what a browser is told."""

from __future__ import annotations

import base64
import subprocess
import sys

import pytest
from starlette.routing import Mount, Route

from silkline import Bury, Request
from silkline.dashboard import app
from silkline.dashboard.security import HEADERS, SESSION, Authenticator, WrongTokens, clean_name, local_path
from silkline.dashboard.server import check_proxy
from silkline.errors import ConfigError
from tests.dashboard.serving import TOKEN, Serving, Visitor, patient


def acts():
    """Every address that takes a form."""
    return sorted(
        route.path.replace("{crawl}", "books")
        for route in app(None).routes
        if isinstance(route, Route) and "POST" in (route.methods or ()) and route.path != "/sign-in"
    )


def pages():
    return sorted(
        route.path.replace("{crawl}", "books")
        for route in app(None).routes
        if isinstance(route, Route) and "GET" in (route.methods or ()) and route.path not in ("/healthz", "/readyz")
    )


def test_the_routes_are_all_tested():
    assert len(acts()) >= 14
    assert len(pages()) >= 14
    assert all(isinstance(route, Route | Mount) for route in app(None).routes)


@pytest.mark.parametrize("path", acts())
def test_without_a_token_nobody_may_act(guest, path):
    if path == "/sign-out":
        assert guest.post(path, {}).status == 303
        return
    answer = guest.post(path, {"crawl": "books", "host": "shop.example", "name": "books", "sure": "yes"})
    assert answer.status == 403
    assert "read-only" in answer.words


@pytest.mark.parametrize("path", acts())
def test_a_form_that_we_did_not_make_is_refused(operator, path):
    form = {"crawl": "books", "host": "shop.example", "name": "books", "sure": "yes"}
    assert operator.post(path, form).status == 403
    assert operator.post(path, {**form, "csrf": "0" * 64}).status == 403


def test_a_form_made_for_another_session_is_refused(operator, locked_dashboard, own_crawl):
    another = Visitor(locked_dashboard.port)
    another.sign_in(name="eve")
    form = {"csrf": another.get("/").csrf}
    assert operator.post(f"/crawls/{own_crawl.crawl}/pause", form).status == 403
    assert own_crawl.admin.stats().state == "open"
    assert another.post(f"/crawls/{own_crawl.crawl}/pause", form).status == 303
    assert own_crawl.admin.stats().state == "paused"


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}],
)
def test_a_form_from_another_site_is_refused_even_if_it_is_right(operator, own_crawl, headers):
    form = {"csrf": operator.get("/").csrf}
    assert operator.post(f"/crawls/{own_crawl.crawl}/pause", form, **headers).status == 403
    assert own_crawl.admin.stats().state == "open"


@pytest.mark.parametrize("path", pages())
def test_a_stranger_sees_nothing(stranger, path):
    answer = stranger.get(path)
    if path == "/sign-in":
        assert answer.status == 200
    else:
        assert answer.status == 303
        assert answer.headers["location"].startswith("/sign-in?next=")
    assert "books" not in answer.text.replace("books.example", "")
    assert stranger.get(path, Silkline_Live="1", Accept="*/*").status == (200 if path == "/sign-in" else 401)


def test_what_is_open_to_all(stranger):
    assert stranger.get("/healthz").text == "ok\n"
    assert stranger.get("/static/silkline.css").status == 200


def test_signing_in_leads_back_and_leaves_a_cookie_that_scripts_cannot_read(stranger):
    wanted = stranger.get("/hosts?crawl=books&q=shop").headers["location"]
    assert "Wrong token" not in stranger.get(wanted).words
    wrong = stranger.sign_in("not the token at all", next="/hosts")
    assert wrong.status == 401
    assert "Wrong token" in wrong.words
    assert not stranger.cookie
    right = stranger.sign_in(next="/hosts?crawl=books&q=shop")
    assert right.status == 303
    assert right.headers["location"] == "/hosts?crawl=books&q=shop"
    for word in ("HttpOnly", "SameSite=lax", "Path=/", f"Max-Age={SESSION}"):
        assert word in stranger.last_cookie
    assert TOKEN not in stranger.last_cookie
    page = stranger.get("/")
    assert "mira" in page.words
    assert TOKEN not in page.text
    assert stranger.post("/sign-out", {"csrf": page.csrf}).status == 303
    assert stranger.get("/").status == 303


def test_a_token_in_an_address_opens_nothing(stranger):
    assert stranger.get(f"/?token={TOKEN.replace(' ', '%20')}").status == 303


def test_programs_sign_in_with_a_header(stranger, own_crawl):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert stranger.get("/crawls", **bearer).status == 200
    assert (
        stranger.post(f"/crawls/{own_crawl.crawl}/pause", {}, **bearer).status == 303
    )  # no browser sends it by itself
    assert own_crawl.admin.audit()[0].by == "token@dashboard"
    refused = stranger.get("/crawls", Authorization="Bearer wrong")
    assert refused.status == 401
    assert "WWW-Authenticate".lower() in refused.headers


def test_basic_authentication_needs_the_form_too(stranger, own_crawl):
    basic = {"Authorization": "Basic " + base64.b64encode(f"jonas:{TOKEN}".encode()).decode()}
    page = stranger.get("/", **basic)
    assert page.status == 200
    path = f"/crawls/{own_crawl.crawl}/pause"
    assert stranger.post(path, {}, **basic).status == 403
    assert stranger.post(path, {"csrf": page.csrf}, **basic).status == 303
    assert own_crawl.admin.audit()[0].by == "jonas@dashboard"
    for wrong in ("bm8=", "%%%", base64.b64encode(b"jonas:wrong").decode()):
        assert stranger.get("/", Authorization=f"Basic {wrong}").status == 401


def test_read_only_with_a_token(store):
    with Serving(app(store.url, token=TOKEN, read_only=True)) as serving:
        visitor = Visitor(serving.port)
        visitor.sign_in()
        page = visitor.get("/crawls/books")
        assert page.status == 200
        assert "/pause" not in page.text
        assert visitor.post("/crawls/books/pause", {"csrf": page.csrf}).status == 403


def test_a_hostile_name_that_leads_here_is_refused(store):
    with Serving(app(store.url, hosts=("dash.example",))) as serving:
        visitor = Visitor(serving.port)
        assert visitor.get("/", Host="evil.example").status == 421
        assert visitor.get("/", Host="evil.example", Accept="*/*").status == 421
        for name in ("dash.example", "DASH.example:80", "localhost:7455", "127.0.0.1:7455", "[::1]:7455"):
            assert visitor.get("/", Host=name).status == 200


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/silkline.js", "/sign-in", "/dead?status=x&crawl=books"])
def test_every_response_instructs_browsers_what_to_keep_to(guest, path):
    answer = guest.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name.lower()] == value
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_session_ends_and_cannot_be_made_up():
    now = [1_800_000_000.0]
    guard = Authenticator(TOKEN, clock=lambda: now[0])
    cookie = guard.new_session("mira")
    assert guard._session(cookie).name == "mira"
    for forged in ("", ".", "a.b.c.d", cookie[:-1] + ("0" if cookie[-1] != "0" else "1"), "x" + cookie):
        assert guard._session(forged) is None
    assert Authenticator(TOKEN + "!", clock=lambda: now[0])._session(cookie) is None
    now[0] += SESSION + 1
    assert guard._session(cookie) is None


def test_short_tokens_are_refused():
    with pytest.raises(ConfigError, match="16 characters"):
        app(None, token="secret")


@pytest.mark.parametrize(
    "path",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "hosts", "/a\nb", ""],
)
def test_after_signing_in_one_stays_here(path, stranger):
    assert local_path(path) == ""
    assert stranger.sign_in(next=path).headers["location"] == "/"


def test_names_are_cleaned():
    assert clean_name("  \u202emira\x00\n ") == "mira"
    assert clean_name("") == "operator"
    assert len(clean_name("x" * 500)) == 40


@pytest.mark.parametrize("missing", ["starlette", "jinja2"])
def test_a_missing_package_is_named(missing):
    program = f"import sys; sys.modules['{missing}'] = None\nimport silkline.dashboard"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert f"the dashboard needs the package {missing}: pip install 'silkline[dashboard]'" in done.stderr


def test_only_small_plain_forms_are_read(operator):
    form = {"csrf": operator.get("/").csrf, "crawl": "books"}
    assert operator.post("/host/pause", {**form, "host": "x" * 70_000}).status == 413
    assert operator.post("/host/pause", form, Content_Type="application/json").status == 415
    assert operator.post("/host/pause", {f"field{number}": "" for number in range(200)}).status == 400
    assert operator.post("/host/pause", {**form, "host": "no such/host"}).status == 400


@pytest.mark.parametrize("text", ["proxy.example", "*", "", "0.0.0.0/0", "::/0", "10.0.0.5/8"])
def test_a_proxy_is_named_by_its_address(text):
    with pytest.raises(ConfigError, match="--proxy"):
        check_proxy(text)


def test_whoever_asks_whether_we_are_ready_learns_no_address():
    for options in ({}, {"token": TOKEN}):
        with Serving(app("redis://127.0.0.1:1", **options)) as serving:
            for accept in ("text/html", "*/*"):
                answer = Visitor(serving.port).get("/readyz", Accept=accept)
                assert answer.status == 503
                assert "127.0.0.1" not in answer.text


# ── guessing, and signing out ────────────────────────────────────────────────────────────────────────────────────────


def test_a_client_that_guesses_must_wait_longer_and_longer(caplog):
    now = [0.0]
    tokens = WrongTokens(clock=lambda: now[0])
    for _ in range(4):
        tokens.note("192.0.2.1")
        assert tokens.wait("192.0.2.1") == 0
    waits = []
    for _ in range(9):
        tokens.note("192.0.2.1")
        waits.append(tokens.wait("192.0.2.1"))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert tokens.wait("192.0.2.2") == 0
    now[0] += 61
    assert tokens.wait("192.0.2.1") == 0
    now[0] += 700
    tokens.note("192.0.2.1")
    assert tokens.wait("192.0.2.1") == 0
    assert "wrong token from 192.0.2.1, 5 in a row; next attempt allowed in 1 s" in caplog.text


@pytest.mark.parametrize(
    ("way", "address"), [("form", "127.0.0.11"), ("bearer", "127.0.0.12"), ("basic", "127.0.0.13")]
)
def test_wrong_tokens_are_slowed_down_and_the_right_one_is_not_read_meanwhile(locked_dashboard, way, address):
    visitor = Visitor(locked_dashboard.port, address=address)

    def knock(token):
        if way == "form":
            return visitor.sign_in(token)
        basic = base64.b64encode(f"mira:{token}".encode()).decode()
        return visitor.get("/crawls", Authorization=f"Bearer {token}" if way == "bearer" else f"Basic {basic}")

    wrong = [knock("0123456789abcdef-wrong").status for _ in range(9)]
    assert wrong[:5] == [401] * 5
    assert 429 in wrong
    guard = locked_dashboard.app.guard
    guard.wrong_tokens.note(address)  # so that the machine may be slow
    guard.wrong_tokens.note(address)
    refused = knock(TOKEN)
    assert refused.status == 429
    assert "Try again in" in refused.words
    assert int(refused.headers["retry-after"]) >= 1


def test_signing_out_ends_the_session_on_every_dashboard_of_the_server(store, locked_dashboard, operator):
    thief = Visitor(locked_dashboard.port)
    thief.cookie = operator.cookie
    page = thief.get("/")
    assert page.status == 200
    assert operator.post("/sign-out", {"csrf": page.csrf}).status == 303
    assert thief.get("/crawls").status == 303
    with Serving(patient(app(store.url, token=TOKEN))) as elsewhere:
        copy = Visitor(elsewhere.port)
        copy.cookie = thief.cookie
        assert copy.get("/crawls").status == 303
        assert copy.sign_in().status == 303
        assert copy.get("/crawls").status == 200


def test_a_token_of_one_letter_is_refused():
    with pytest.raises(ConfigError, match="6 of them different"):
        Authenticator("a" * 40)


def test_no_page_shows_the_password_of_a_url(guest, own_crawl):
    own_crawl.enqueue(Request("https://ada:s3cret@login.example/page", priority=9))
    [lease] = own_crawl.claim(1)
    working = guest.get("/requests").text
    long = f"https://ada:{'s3cret' * 30}@login.example/"  # an excerpt ends in the middle of it
    why = f"handler parse: ValueError (books.py:3): {long} and https://ada:s3cret@login.example/next"
    own_crawl.settle([(lease, Bury(why, 500, detail=f"Traceback\n  {why}"))])
    [letter] = own_crawl.admin.dead(host="login.example")
    query = f"crawl={own_crawl.crawl}"
    pages = [f"/dead?{query}", f"/dead/letter?{query}&id={letter.id}", f"/crawls/{own_crawl.crawl}", f"/?{query}"]
    pages += [f"/dead/revive?{query}", f"/host?{query}&host=login.example", f"/hosts?{query}"]
    shown = {"/requests": working, **{page: guest.get(page).text for page in pages}}
    told = {page: text.partition("s3cret")[0][-300:] for page, text in shown.items() if "s3cret" in text}
    assert told == {}
    assert "ada:***@login.example" in shown[pages[0]]
