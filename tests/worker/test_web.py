"""What the web does to a crawl, and what becomes of the page."""

import asyncio

import msgspec
import pytest

from silkline import Budget, Crawl, Frontier, Politeness, Request, Retries, Scope
from silkline.core.url import parse
from silkline.errors import ConfigError, HostUnreachable
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import SiteResponse
from silkline.testing.site import healing, redirect
from silkline.worker.crawl.crawl import CrawlHeaders, FetchOptions
from tests.worker.conftest import Run, until


def take_all(crawl):
    """A handler that notes what it got and follows everything."""

    @crawl.handler
    def parse(page):
        yield {"path": page.url.split("/", 3)[3], "status": page.status, "came": len(page.request.redirects)}
        yield page.follow(page.css("a[href]"))

    return crawl


async def test_what_heals_is_fetched_again_and_what_does_not_is_buried(serve, run, new_crawl):
    site = await serve(
        {"/heals": healing("well", 2), "/gone": 404, "/broken": 500, "/empty": SiteResponse("", status=204)}
    )
    crawl = take_all(new_crawl([site.at(path) for path in ("/heals", "/gone", "/broken", "/empty")]))
    done = await run(crawl)
    assert sorted((item["path"], item["status"]) for item in done.items) == [("empty", 204), ("heals", 200)]
    letters = {letter.url.rpartition("/")[2]: letter for letter in done.dead}
    assert letters["gone"].reason == "status 404"
    assert letters["gone"].status == 404
    assert letters["broken"].reason == "status 500"
    assert len(site.visits.to(path="/broken")) == 5
    assert len(site.visits.to(path="/gone")) == 1
    assert done.counters.statuses[404] == 1


async def test_a_crawl_accepts_the_statuses_it_likes(serve, run, new_crawl):
    site = await serve({"/gone": SiteResponse("<h1>gone</h1>", status=404)})
    done = await run(take_all(new_crawl(site.at("/gone"), retries=Retries(accept=frozenset({404})))))
    assert [item["status"] for item in done.items] == [404]


async def test_a_busy_host_is_left_alone_as_long_as_it_asks(serve, run, new_crawl):
    busy = [SiteResponse("busy", status=429, headers={"Retry-After": "1"})]
    site = await serve({"/busy": lambda visit: busy.pop() if busy else "fine", "/other": "fine"})
    crawl = take_all(new_crawl([site.at("/busy")], politeness=Politeness(delay=0, concurrency=1)))
    done = await run(crawl)
    assert [item["path"] for item in done.items] == ["busy"]
    first, second = site.visits.to(path="/busy")
    assert second.at - first.at >= 0.99


async def test_a_host_that_only_complains_is_visited_more_slowly(serve, run, new_crawl):
    busy = [SiteResponse("busy", status=503), SiteResponse("busy", status=429)]
    site = await serve({"/busy": lambda visit: busy.pop() if busy else "fine", "/*": "fine"})
    starts = [Request(site.at("/busy"), priority=1), *(site.at(f"/{i}") for i in range(2))]
    done = await run(take_all(new_crawl(starts, politeness=Politeness(delay=0, concurrency=1))))
    assert len(done.items) == 3
    gaps = site.visits.gaps(site.hosts[0])
    assert max(gaps) >= 0.45  # from 0 to a quarter of a second, then twice that, though the crawl asks for no delay


async def test_redirects_are_requests_of_their_own(serve, run, new_crawl):
    site = await serve(
        {
            "/a": redirect("/b", 301),
            "/b": redirect("//127.0.0.2:{port}/c", 302),
            "//127.0.0.2/c": "here",
        },
        hosts=2,
    )
    port = site.hosts[0].rpartition(":")[2]
    site.routes["/b"] = redirect(f"http://127.0.0.2:{port}/c", 302)
    crawl = take_all(new_crawl(site.at("/a"), scope=Scope(stay="anywhere"), budget=Budget(depth=0)))
    done = await run(crawl)
    assert done.items == [{"path": "c", "status": 200, "came": 2}]
    assert done.counters.redirects == 2
    assert site.visits.to(site.hosts[1]).paths == ["/robots.txt", "/c"]


async def test_redirects_that_lead_nowhere_are_buried_with_their_reason(serve, run, new_crawl):
    cookies = [("Set-Cookie", f"c{n}={'x' * 3000}; Path=/") for n in range(2)]
    site = await serve(
        {
            "/loop": redirect("/loop2"),
            "/loop2": redirect("/loop"),
            "/file": redirect("file:///etc/passwd"),
            "/out": redirect("http://elsewhere.example/"),
            "/laden": SiteResponse("", status=302, headers=[("Location", "/there"), *cookies]),
            "/long/*": lambda visit: redirect(f"/long/{int(visit.path.rpartition('/')[2]) + 1}"),
        }
    )
    starts = [site.at(path) for path in ("/loop", "/file", "/out", "/long/0")]
    starts.append(Request(site.at("/laden"), meta={"x": "x" * 60_000}))  # which cannot carry the cookies too
    done = await run(take_all(new_crawl(starts, fetching=FetchOptions(allow_private=True, max_redirects=4))))
    reasons = {letter.url.split("/", 3)[3]: letter.reason for letter in done.dead}
    assert "a loop of redirects" in reasons["loop2"]
    assert "only http and https" in reasons["file"]
    assert "out of the crawl's scope" in reasons["out"]
    assert reasons["laden"].startswith("redirected to '/there', which cannot be crawled: the request takes 6")
    assert "more than 4 redirects" in reasons["long/4"]
    assert done.items == []


async def test_a_page_that_wants_its_cookie_first_is_fetched_with_it(serve, run, new_crawl):
    def wall(visit):
        if "seen=1" in visit.headers.get("cookie", ""):
            return "welcome"
        return SiteResponse("", status=302, headers={"Location": "/wall", "Set-Cookie": "seen=1; Path=/"})

    site = await serve({"/wall": wall})
    done = await run(take_all(new_crawl(site.at("/wall"))))
    assert [item["path"] for item in done.items] == ["wall"]


async def test_secrets_do_not_follow_a_redirect_to_another_host(serve, run, new_crawl):
    site = await serve({"//127.0.0.2/end": "x"}, hosts=2)
    site.routes["/start"] = redirect(f"http://{site.hosts[1]}/end")
    start = Request(site.at("/start"), cookies={"s": "1"}, auth=("u", "p"), headers={"Authorization": "t", "X-A": "1"})
    await run(take_all(new_crawl(start, scope=Scope(stay="anywhere"))))
    (here,) = site.visits.to(path="/start")
    (there,) = site.visits.to(path="/end")
    assert here.headers["cookie"] == "s=1"
    assert "authorization" in here.headers
    assert "cookie" not in there.headers
    assert "authorization" not in there.headers
    assert there.headers["x-a"] == "1"


async def test_robots_txt_is_obeyed_and_fetched_once(serve, run, new_crawl):
    site = await serve(
        {"/": "<a href=/private/x>no</a><a href=/public>yes</a>", "/*": "x"}, robots="User-agent: *\nDisallow: /private"
    )
    done = await run(take_all(new_crawl(site.url)))
    assert sorted(item["path"] for item in done.items) == ["", "public"]
    assert site.visits.paths.count("/robots.txt") == 1
    assert "/private/x" not in site.visits.paths
    assert done.counters.robots_denied == 1
    assert done.stats.dead == 0


ALLOWED = "User-agent: *\nAllow: /"


async def test_each_hop_of_a_robots_txt_comes_a_delay_after_the_last_and_pages_a_delay_after_them(
    serve, run, new_crawl
):
    hops = {"/robots.txt": redirect("/r1"), "/r1": redirect("/r2"), "/r2": ALLOWED}
    site = await serve({**hops, "/a": "x", "/b": "x"})
    pages = [site.at("/a"), site.at("/b")]
    done = await run(take_all(new_crawl(pages, politeness=Politeness(delay=0.3, concurrency=8))))
    assert len(done.items) == 2
    assert site.visits.paths[:3] == ["/robots.txt", "/r1", "/r2"]
    assert len(site.visits) == 5
    assert site.visits.smallest_gap(site.hosts[0]) >= 0.3 * 0.85


@pytest.mark.parametrize(("alike", "fetched"), [(True, 1), (False, 4)])
async def test_a_host_to_which_many_robots_txt_lead_is_asked_for_one_at_a_time(alike, fetched, serve, run, new_crawl):
    site = await serve({}, hosts=5)
    *origins, central = site.hosts
    for number, host in enumerate(origins):
        name = host.rpartition(":")[0]
        target = "/all" if alike else f"/{number}"
        site.routes[f"//{name}/robots.txt"] = redirect(f"http://{central}{target}")
        site.routes[f"//{name}/"] = "x"
        site.routes[target] = ALLOWED
    starts = [f"http://{host}/" for host in origins]
    done = await run(take_all(new_crawl(starts, politeness=Politeness(delay=0.3, concurrency=8))))
    assert len(done.items) == 4
    visits = site.visits.to(central)
    assert len(visits) == fetched
    assert not visits[1:] or site.visits.smallest_gap(central) >= 0.3 * 0.85


async def test_robots_txt_can_be_ignored(serve, run, new_crawl):
    site = await serve({"/": "x"}, robots="User-agent: *\nDisallow: /")
    done = await run(take_all(new_crawl(site.url, fetching=FetchOptions(allow_private=True, obey_robots=False))))
    assert len(done.items) == 1
    assert site.visits.paths == ["/"]


async def test_robots_txt_speaks_to_us_by_name(serve, run, new_crawl):
    site = await serve({"/*": "x"}, robots="User-agent: nicebot\nDisallow: /x\n\nUser-agent: *\nDisallow: /y\n")
    fetching = FetchOptions(allow_private=True, user_agent="NiceBot/2.0 (+https://nice.example)")
    done = await run(take_all(new_crawl([site.at("/x"), site.at("/y")], fetching=fetching)))
    assert [item["path"] for item in done.items] == ["y"]
    assert site.visits.to(path="/y")[0].headers["user-agent"] == "NiceBot/2.0 (+https://nice.example)"


async def test_private_addresses_are_refused_unless_allowed(serve, run, new_crawl):
    site = await serve({"/": "x"})
    done = await run(take_all(new_crawl(Request(site.url, depth=1), fetching=FetchOptions())))
    assert "forbidden_address" in done.dead[0].reason
    assert len(site.visits) == 0


@pytest.mark.parametrize("links", [50, 20_000])
async def test_a_page_of_links_is_cut_off(serve, run, new_crawl, links):
    site = await serve({"/": "".join(f"<a href=/{i}>x</a>" for i in range(links)), "/*": "x"})
    done = await run(take_all(new_crawl(site.url, scope=Scope(max_links=10))))
    assert done.stats.done == 11
    assert done.counters.skipped["too many links"] == links - 10


async def test_an_endless_calendar_ends_at_the_depth_allowed(serve, run, new_crawl):
    site = await serve({"/*": lambda visit: f"<a href=/day/{len(site.visits)}>next</a>"})
    done = await run(take_all(new_crawl(site.url, scope=Scope(max_depth=5))))
    assert done.stats.done == 6
    assert done.counters.skipped["too deep"] == 1


async def test_limits_bury_what_is_too_large(serve, run, new_crawl):
    site = await serve({"/big": "x" * 100_000, "/small": "x"})
    fetching = FetchOptions(allow_private=True, limits=Limits(max_body=50_000))
    done = await run(take_all(new_crawl([site.at("/big"), site.at("/small")], fetching=fetching)))
    assert [item["path"] for item in done.items] == ["small"]
    assert done.dead[0].reason.startswith("too_large")


async def test_an_error_in_middleware_ends_in_a_dead_letter(serve, run, new_crawl):
    site = await serve({"/": "x"})
    crawl = take_all(new_crawl(site.url, retries=[0.01]))

    @crawl.middleware
    async def broken(request, call_next):
        raise LookupError("no token")

    done = await run(crawl)
    assert done.dead[0].reason == f"fetching: LookupError (test_web.py:{broken.__code__.co_firstlineno + 2}): no token"


async def test_middleware_is_an_onion_around_the_fetch(serve, run, new_crawl):
    site = await serve({"/": lambda visit: visit.headers.get("x-token", "none")})
    crawl = new_crawl(site.url)
    order = []

    @crawl.middleware
    async def outer(request, call_next):
        order.append("outer in")
        response = await call_next(request)
        order.append("outer out")
        return response

    @crawl.middleware
    async def inner(request, call_next):
        order.append("inner")
        return await call_next(msgspec.structs.replace(request, headers={"X-Token": "secret"}))

    @crawl.handler
    def parse(page):
        yield {"text": page.text}

    done = await run(crawl)
    assert done.items == [{"text": "secret"}]
    assert order == ["outer in", "inner", "outer out"]


@pytest.mark.parametrize("named", [False, True])
async def test_headers_of_the_crawl_stay_with_the_sites_of_its_start_urls(named, serve, run, new_crawl):
    """Also when a page of another site is reached by a redirect or a link; those without secrets go everywhere."""
    there = await serve({"/*": "x"})
    elsewhere = there.url.replace("127.0.0.1", "localhost")
    here = await serve(
        {"/": f"<a href='{elsewhere}link'>x</a><a href=/away>y</a>", "/away": redirect(f"{elsewhere}moved")}
    )
    secrets = {"Authorization": "Bearer secret", "X-Api-Key": "secret", "Accept-Language": "de"}
    sites = {"header_sites": (here.url,)} if named else {}
    fetching = FetchOptions(allow_private=True, obey_robots=False, headers=secrets, **sites)
    start = (lambda: [here.url]) if named else here.url
    crawl = new_crawl(start, fetching=fetching, scope=Scope(stay="anywhere"))

    @crawl.handler
    def page(page):
        yield page.follow(page.css("a"))

    await run(crawl)
    assert [visit.headers.get("authorization") for visit in here.visits] == ["Bearer secret"] * 2
    assert {visit.path for visit in there.visits} == {"/link", "/moved"}
    for visit in there.visits:
        assert ("authorization" in visit.headers, "x-api-key" in visit.headers) == (False, False)
        assert visit.headers["accept-language"] == "de"


@pytest.mark.parametrize(
    ("start", "url", "trusted"),
    [
        ("https://shop.example.com/", "https://api.example.com/x", True),
        ("https://shop.example.com/", "http://shop.example.com/", False),
        ("http://shop.example.com/", "https://shop.example.com/", True),
        ("https://shop.example.com/", "https://example.org/", False),
        ("https://a.github.io/", "https://b.github.io/", False),
    ],
)
def test_where_the_headers_of_a_crawl_may_go(start, url, trusted):
    headers = CrawlHeaders({"Authorization": "secret"}, [parse(start)])
    assert bool(headers.for_request(Request(url))) == trusted


def test_headers_of_a_crawl_whose_start_is_a_function_need_their_sites():
    crawl = Crawl("books", start=list, fetching=FetchOptions(headers={"X-Api-Key": "secret"}))
    take_all(crawl)
    with pytest.raises(ConfigError, match="header_sites"):
        crawl.check_ready()


async def test_the_crawls_headers_go_with_every_page(serve, run, new_crawl):
    site = await serve({"/*": lambda visit: f"{visit.headers.get('accept-language')} {visit.headers.get('x-own')}"})
    fetching = FetchOptions(allow_private=True, headers={"Accept-Language": "de", "X-Own": "crawl"})
    crawl = new_crawl([site.at("/a"), Request(site.at("/b"), headers={"x-own": "request"})], fetching=fetching)

    @crawl.handler
    def parse(page):
        yield {page.url[-1]: page.text}

    done = await run(crawl)
    assert sorted(done.items, key=str) == [{"a": "de crawl"}, {"b": "de request"}]


class Nowhere:
    """A DNS that knows no name."""

    async def resolve(self, host):
        raise HostUnreachable(f"DNS has no address for {host}: Name or service not known", "dns")

    async def close(self):
        pass


async def test_pages_of_a_host_that_dns_does_not_know_are_buried_for_that(run, new_crawl):
    """Not because its robots.txt cannot be read, which is true too and helps nobody."""
    fetching = FetchOptions(fetcher=lambda _: WreqFetcher(guard=Guard(resolver=Nowhere())))
    crawl = take_all(new_crawl([f"http://nowhere.example/{n}" for n in range(6)], retries=[0.05], fetching=fetching))
    done = await run(crawl)
    reason = "dns: DNS has no address for nowhere.example: Name or service not known"
    assert {letter.reason.removeprefix("gave up after 2 attempts: ") for letter in done.dead} == {reason}
    assert len(done.dead) == 6
    assert set(done.counters.errors) == {"dns"}


async def test_pages_of_a_host_whose_robots_txt_is_broken_say_how(serve, run, new_crawl):
    site = await serve({"/page": "x"}, robots=503)
    crawl = take_all(new_crawl(site.at("/page"), retries=[0.05]))
    running = Run(crawl, run.url)
    task = asyncio.create_task(running.go())
    await until(lambda: running.worker and running.worker.counters.retried)
    running.worker.stop()
    await task
    async with await Frontier.open(run.url, crawl=crawl.name, create=False) as frontier:
        file = await frontier.robots(site.url)
    assert file.reason == "robots.txt cannot be read: HTTP 503"
