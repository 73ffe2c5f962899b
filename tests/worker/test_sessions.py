"""Named sessions: workers share their cookies, and log in once for all of them."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from itertools import pairwise

import msgspec
import pytest

from silkline import Crawl, FetchOptions, Frontier, Politeness, Request, Worker
from silkline.errors import ConfigError, RequestError
from silkline.fetch import Proxies, Sessions
from silkline.frontier.verbs.sessions import MOST_STATE_BYTES
from silkline.testing import Raw, SiteResponse, page
from silkline.worker import sessions
from tests.proxies import ProxyServer
from tests.worker.conftest import OPTIONS, ListSink, Run


class Accounts:
    """A site where users log in with a form; a login ends after some pages."""

    def __init__(self, lasts=1_000_000):
        self.lasts = lasts
        self.logins = []
        self.pages = {}
        self.open = True

    def routes(self):
        return {"/login": self.login, "/in": self.enter, "/page/*": self.page}

    def login(self, visit):
        form = "<form id=login method=post action=/in><input name=user><input type=hidden name=csrf value=1></form>"
        return SiteResponse(form, headers={"Set-Cookie": "sid=new; Path=/"})

    def enter(self, visit):
        if not self.open or visit.headers.get("cookie") != "sid=new":
            return SiteResponse("no", status=403)
        user = visit.body.decode().partition("&")[0].removeprefix("user=")
        self.logins.append(user)
        sid = f"{user}-{len(self.logins)}"
        self.pages[sid] = 0
        return SiteResponse("", status=303, headers={"Location": "/page/home", "Set-Cookie": f"sid={sid}; Path=/"})

    def page(self, visit):
        sid = visit.headers.get("cookie", "").removeprefix("sid=")
        if sid not in self.pages or self.pages[sid] >= self.lasts:
            return SiteResponse("log in first", status=401)
        self.pages[sid] += visit.path != "/page/home"
        return f"<p>{sid.partition('-')[0]}</p>"


def with_login(crawl, **options):
    @crawl.login(**options)
    async def login(session):
        page = await session.fetch(login.url)
        page = await session.fetch(page.form("#login").submit(user=session.name))
        if page.status != 200:
            raise RuntimeError(f"status {page.status}")

    @crawl.handler
    def take(page):
        yield {"path": page.url.rpartition("/")[2], "user": page.text_of("p")}

    return login


async def test_a_login_is_done_once_for_all_workers(serve, valkey, crawl):
    accounts = Accounts()
    site = await serve(accounts.routes())
    starts = [site.at(f"/page/{number}") for number in range(40)]
    definitions = [
        Crawl(crawl, starts, politeness=Politeness(delay=0, concurrency=8), fetching=FetchOptions(allow_private=True))
        for _ in range(2)
    ]
    sink = ListSink()
    for definition in definitions:
        with_login(definition).url = site.at("/login")

    async def work(definition):
        async with await Frontier.open(valkey.url, crawl=crawl, **definition.arguments) as frontier:
            await frontier.enqueue(await definition.starts())
            await Worker(definition, frontier, sinks=[sink], options=OPTIONS).run()
            return await frontier.admin.dead()

    assert await asyncio.gather(*map(work, definitions)) == [[], []]
    assert accounts.logins == ["login"]
    assert sorted(int(item["path"]) for item in sink.items) == list(range(40))
    assert {item["user"] for item in sink.items} == {"login"}


async def test_a_login_survives_the_worker_and_each_session_has_its_own(serve, valkey, new_crawl):
    accounts = Accounts()
    site = await serve(accounts.routes())

    async def crawl_pages(*pages):
        crawl = new_crawl([Request(site.at(path), session=session) for path, session in pages])
        with_login(crawl).url = site.at("/login")
        return sorted((item["path"], item["user"]) for item in (await Run(crawl, valkey.url).go()).items)

    assert await crawl_pages(("/page/1", "ann"), ("/page/2", "bob"), ("/page/3", "ann")) == [
        ("1", "ann"), ("2", "bob"), ("3", "ann")
    ]  # fmt: skip
    assert await crawl_pages(("/page/4", "bob"), ("/page/5", "ann")) == [("4", "bob"), ("5", "ann")]
    assert sorted(accounts.logins) == ["ann", "bob"]


@pytest.mark.parametrize("ended", [None, lambda page: "log in first" in page.text])
async def test_a_login_that_has_ended_is_done_again(serve, run, new_crawl, ended):
    accounts = Accounts(lasts=3)
    site = await serve(accounts.routes())
    crawl = new_crawl([site.at(f"/page/{number}") for number in range(9)], retries=[0.05] * 20)
    with_login(crawl, ended=ended).url = site.at("/login")
    done = await run(crawl)
    assert sorted(int(item["path"]) for item in done.items) == list(range(9))
    assert len(accounts.logins) == 3
    assert done.stats.dead == 0


async def test_pages_that_are_always_refused_do_not_end_every_login(serve, run, new_crawl, monkeypatch):
    """An account with many logins in a short time may be locked."""
    monkeypatch.setattr("silkline.worker.sessions.FIRST_REST", 0.2)
    accounts = Accounts()
    refused = {f"/page/secret{number}": SiteResponse("not for you", status=401) for number in range(6)}
    site = await serve({**accounts.routes(), **refused})
    pages = [f"/page/{number}" for number in range(40)]
    crawl = new_crawl([site.at(path) for path in (*pages, *refused)], retries=[0.05] * 4)
    with_login(crawl).url = site.at("/login")
    done = await run(crawl)
    assert {item["path"] for item in done.items} == {path.rpartition("/")[2] for path in pages}
    assert {letter.reason.partition(":")[0] for letter in done.dead} == {"login"}
    assert len(accounts.logins) <= 1 + len(refused) + 2  # without a limit: each of their 30 attempts ends a login


async def test_a_login_with_which_no_page_was_fetched_is_not_repeated_at_once(serve, run, new_crawl, monkeypatch):
    monkeypatch.setattr("silkline.worker.sessions.FIRST_REST", 0.2)
    accounts = Accounts()
    site = await serve({**accounts.routes(), "/page/1": SiteResponse("not for you", status=401)})
    crawl = new_crawl([site.at("/page/1")], retries=[0.01] * 3)
    with_login(crawl).url = site.at("/login")
    began = time.monotonic()
    done = await run(crawl)
    assert len(done.dead) == 1
    assert time.monotonic() - began > 0.2 * (len(accounts.logins) - 1)
    assert 2 <= len(accounts.logins) <= 4


async def test_pages_wait_while_a_login_fails_and_none_is_buried(serve, run, new_crawl, caplog, monkeypatch):
    monkeypatch.setattr(sessions, "FIRST_REST", 0.2)
    accounts = Accounts()
    accounts.open = False
    site = await serve(accounts.routes())
    crawl = new_crawl([site.at(f"/page/{number}") for number in range(5)])
    login = with_login(crawl)
    login.url = site.at("/login")
    tries = []

    @crawl.middleware
    async def opening(request, call_next):
        try:
            return await call_next(request)
        finally:
            tries.append(len(site.visits.to(path="/in")))
            accounts.open = tries[-1] >= 2

    with caplog.at_level(logging.WARNING):
        done = await run(crawl)
    assert len(done.items) == 5
    assert done.stats.dead == 0
    assert len(accounts.logins) == 1
    assert len(site.visits.to(path="/in")) == 3, "one login at a time, whatever the number of pages"
    assert "the login of the session 'login' failed: RuntimeError: status 403. Its pages wait" in caplog.text


async def test_the_delay_passes_between_the_requests_of_a_login_and_the_page(serve, run, new_crawl):
    site = await serve(Accounts().routes())
    crawl = new_crawl([site.at("/page/1")], politeness=Politeness(delay=0.2))
    with_login(crawl).url = site.at("/login")
    assert len((await run(crawl)).items) == 1
    visits = [visit for visit in site.visits if visit.path != "/robots.txt"]
    assert [visit.path for visit in visits] == ["/login", "/in", "/page/home", "/page/1"]
    assert min(later.at - earlier.at for earlier, later in pairwise(visits)) > 0.19


async def test_links_stay_in_the_session_of_their_page(serve, run, new_crawl):
    def serve_page(visit):
        cookie = visit.headers.get("cookie", "none")
        headers = {"Set-Cookie": "sid=1; Path=/"} if visit.path == "/" else {}
        return SiteResponse(f"<p>{cookie}</p>", headers=headers)

    site = await serve({"/*": serve_page})
    crawl = new_crawl([Request(site.url, session="ann")])

    @crawl.handler
    def first(page):
        if page.url.endswith("/"):
            yield page.follow("/2")
            yield page.follow("/3", session="bob")
            yield page.follow(Request(site.at("/4"), session="bob"))
            yield page.follow(["/5"], session=None)
        else:
            yield {"path": page.url[-1], "session": page.request.session, "cookie": page.text_of("p")}

    done = await run(crawl)
    assert sorted((item["path"], item["session"], item["cookie"]) for item in done.items) == [
        ("2", "ann", "sid=1"),
        ("3", "bob", "none"),
        ("4", "bob", "none"),
        ("5", None, "none"),
    ]


async def test_a_redirect_in_a_session_sets_its_cookie_first(serve, run, new_crawl):
    def wall(visit):
        if "seen=1" in visit.headers.get("cookie", ""):
            return "<p>welcome</p>"
        return SiteResponse("", status=302, headers={"Location": "/wall", "Set-Cookie": "seen=1; Path=/"})

    site = await serve({"/wall": wall})
    crawl = new_crawl([site.at("/wall")], fetching=FetchOptions(allow_private=True, session="main"))

    @crawl.handler
    def take(page):
        yield {"text": page.text_of("p"), "own": page.request.cookies}

    assert (await run(crawl)).items == [{"text": "welcome", "own": {}}]


async def test_ten_thousand_cookies_do_not_fill_the_server(serve, run, new_crawl, valkey):
    def flood(visit):
        number = int(visit.path.rpartition("/")[2])
        value, most = ("€".encode().decode("latin-1") * 1000, 18) if number % 2 else ("x" * 100, 200)
        return SiteResponse("x", headers=[("Set-Cookie", f"c{number}-{one}={value}; Path=/") for one in range(most)])

    site = await serve({"/flood/*": flood})
    crawl = new_crawl(
        [site.at(f"/flood/{number}") for number in range(100)],
        fetching=FetchOptions(allow_private=True, session="main"),
    )
    crawl.handler(_nothing)
    done = await run(crawl)
    assert done.stats.dead == 0
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        reply = await frontier.internal.session_state("main")
    assert 0 < len(reply.state) <= MOST_STATE_BYTES


def _nothing(page):
    pass


async def test_cookies_of_a_session_are_not_shown(serve, run, new_crawl, caplog):
    site = await serve(
        {"/*": SiteResponse("x", headers={"Set-Cookie": "sid=s3cret; Path=/"}), "/broken": SiteResponse("", status=404)}
    )
    crawl = new_crawl([site.at("/1"), site.at("/broken")], fetching=FetchOptions(allow_private=True, session="main"))

    @crawl.handler
    def fails(page):
        raise ValueError(repr(page))

    with caplog.at_level(logging.DEBUG):
        done = await run(crawl)
    assert len(done.dead) == 2
    assert "s3cret" not in caplog.text + repr(done.dead)


# ── pools ──


class Guarded:
    """A site that blocks a visitor after some pages."""

    def __init__(self, block):
        self.block = block
        self.visitors = {}

    def __call__(self, visit):
        found = visit.headers.get("cookie", "").removeprefix("visitor=")
        if not found:
            found = str(len(self.visitors) + 1)
            self.visitors[found] = 0
            return SiteResponse(
                "", status=302, headers={"Location": visit.path, "Set-Cookie": f"visitor={found}; Path=/"}
            )
        self.visitors[found] += 1
        return "<p>fine</p>" if self.visitors[found] <= 5 else self.block


@pytest.mark.parametrize(
    ("block", "retire_on"),
    [
        (SiteResponse("no", status=403), [403]),
        (SiteResponse("<div class=G-Recaptcha>"), ["g-recaptcha"]),
        (SiteResponse("<h1>robot?</h1>"), [403, lambda page: page.css_first("h1") is not None]),
    ],
    ids=["status", "text", "function"],
)
async def test_sessions_of_a_pool_are_replaced_when_a_site_blocks_them(serve, run, new_crawl, block, retire_on):
    guarded = Guarded(block)
    site = await serve({"/page/*": guarded})
    crawl = new_crawl(
        [site.at(f"/page/{number}") for number in range(30)],
        retries=[0.05] * 20,
        fetching=FetchOptions(allow_private=True, session=Sessions(size=3, retire_on=retire_on)),
    )

    @crawl.handler
    def take(page):
        yield {"path": page.url.rpartition("/")[2], "text": page.text_of("p")}

    done = await run(crawl)
    assert sorted(int(item["path"]) for item in done.items) == list(range(30))
    assert {item["text"] for item in done.items} == {"fine"}
    assert done.stats.dead == 0
    assert len(guarded.visitors) >= 6


async def test_a_page_that_is_blocked_in_every_session_becomes_a_dead_letter(serve, run, new_crawl):
    site = await serve({"/page": SiteResponse("no", status=403)})
    pool = Sessions(size=2)
    crawl = new_crawl(site.at("/page"), retries=[0.01] * 3, fetching=FetchOptions(allow_private=True, session=pool))
    crawl.handler(_nothing)
    done = await run(crawl)
    (letter,) = done.dead
    assert (letter.attempts, len(site.visits.to(path="/page"))) == (4, 4)
    assert "blocked" in letter.reason


def test_a_request_stays_in_its_session_of_the_pool():
    pool = Sessions(size=4)
    names = {pool.name_for(Request(f"https://a.example/{number}")) for number in range(100)}
    assert names == {"pool-1", "pool-2", "pool-3", "pool-4"}
    target = Request("https://a.example/other", redirects=("https://a.example/7",))
    assert pool.name_for(target) == pool.name_for(Request("https://a.example/7"))


@pytest.mark.parametrize(
    "options",
    [{"size": 0}, {"size": 501}, {"retire_on": "403"}, {"retire_on": [99]}, {"retire_on": [""]}, {"retire_on": [None]}],
)
def test_wrong_pools_are_refused(options):
    with pytest.raises(ConfigError):
        Sessions(**options)


async def test_a_login_comes_through_the_proxy_of_its_session(serve, run, new_crawl):
    site = await serve(Accounts().routes())
    async with ProxyServer() as one, ProxyServer() as other:
        proxies = Proxies([one.url, other.url], rotate="session")
        crawl = new_crawl([site.at("/page/1")], fetching=FetchOptions(allow_private=True, proxy=proxies))
        with_login(crawl).url = site.at("/login")
        assert len((await run(crawl)).items) == 1
        place = f"127.0.0.1:{site.port}"
        most = max(one.targets.count(place), other.targets.count(place))
    assert most >= 4, "robots.txt has no session"


async def test_a_new_session_has_another_name_by_which_proxies_are_chosen(serve, run, new_crawl):
    site = await serve({"/page/*": Guarded(SiteResponse("no", status=403))})
    seen = []

    class Spy:
        """A fetcher that notes the sessions of requests."""

        def __init__(self, options):
            self._fetcher = msgspec.structs.replace(options, fetcher=None).open()

        async def fetch(self, request, *, user_agent, cut=None):
            seen.append(request.session)
            return await self._fetcher.fetch(request, user_agent=user_agent, cut=cut)

        async def close(self):
            await self._fetcher.close()

    fetching = FetchOptions(allow_private=True, session=Sessions(size=1), fetcher=Spy)
    starts = [site.at(f"/page/{number}") for number in range(12)]
    crawl = new_crawl(starts, retries=[0.05] * 20, fetching=fetching)
    crawl.handler(_nothing)
    assert (await run(crawl)).stats.dead == 0
    assert {"pool-1", "pool-1.1", "pool-1.2"} <= set(seen)


# ── workers that die ──

PROGRAM = """
import sys
from silkline import Crawl, FetchOptions, Politeness, WorkerOptions
from silkline.runtime.event_loop import run_async
from silkline.worker import sessions
from silkline.worker.process.process import work

sessions.LOCK_TTL = 1.0
redis, name, url = sys.argv[1:]
crawl = Crawl(name, url + "page/1", politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))

@crawl.login
async def login(session):
    await session.fetch(url + "slow")

@crawl.handler
def page(page):
    pass

run_async(work(crawl, redis, options=WorkerOptions(lease=1.0)))
"""


async def test_a_worker_that_is_killed_while_it_logs_in_is_followed_by_another(serve, valkey, new_crawl):
    reached, accounts = asyncio.Event(), Accounts()

    async def slow(wire, _):
        reached.set()
        await asyncio.Event().wait()

    site = await serve({**accounts.routes(), "/slow": Raw(slow)})
    crawl = new_crawl(site.at("/page/1"))
    with_login(crawl).url = site.at("/login")
    async with await Frontier.open(valkey.url, crawl=crawl.name, **crawl.arguments) as frontier:
        await frontier.enqueue([site.at("/page/1")])
    command = [sys.executable, "-c", PROGRAM, valkey.url, crawl.name, site.url]
    worker = subprocess.Popen(command)  # noqa: ASYNC220 - it does not wait
    await asyncio.wait_for(reached.wait(), 100)
    worker.kill()
    await asyncio.to_thread(worker.wait, 60)
    done = await Run(crawl, valkey.url).go()
    assert done.items == [{"path": "1", "user": "login"}]
    assert accounts.logins == ["login"]


def test_wrong_sessions_are_refused():
    with pytest.raises(ConfigError, match="session must be a name of 1 to 100 printable characters"):
        FetchOptions(session="")
    for wrong in ("", "x" * 101, "a\n", True, 5):
        with pytest.raises(RequestError, match="session must be a name"):
            page(url="https://a.example/").follow("/b", session=wrong)
    crawl = Crawl("shop", fetching=FetchOptions(cookies=False, session="main"))
    crawl.handler(_nothing)
    with pytest.raises(ConfigError, match="leave out cookies=False"):
        crawl.check_ready()
    crawl.login(_nothing)
    with pytest.raises(ConfigError, match="two logins"):
        crawl.login(_nothing)
