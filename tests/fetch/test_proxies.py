"""Pages are fetched through proxies, and what a proxy breaks is the proxy's fault."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from silkline import FetchOptions, Request
from silkline.errors import ConfigError, FetchTimeout, ForbiddenAddress, HostUnreachable, ProxyFailure
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.proxies import Proxies, read_proxy
from silkline.fetch.proxy.pool import CHECKS, IN_A_ROW, LIKE_THE_CHECK
from silkline.fetch.wreq_fetcher import WreqFetcher
from silkline.testing import LocalSite, SiteResponse
from tests.fetch.certificates import Authority
from tests.proxies import ProxyServer

AGENT = "silkline-test/1 (+https://example.com/bot)"
SECRET = "s3cr3t-w0rd"
LIMITS = Limits(timeout=60, connect_timeout=30)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def sites(authority):
    """A site for each scheme."""
    async with (
        LocalSite({"*": "a page"}) as plain,
        LocalSite({"*": "a page"}, tls=authority.server("a.test", "b.test", "127.0.0.1")) as secure,
    ):
        yield {"http": plain, "https": secure}


@pytest.fixture
async def through(authority):
    """Opens fetchers that use a proxy."""
    opened = []

    def open_(proxy, limits=LIMITS, *, allow_private=True):
        url = proxy.url if isinstance(proxy, ProxyServer) else proxy
        guard = Guard(allow_private=allow_private)
        opened.append(WreqFetcher(limits, guard=guard, verify=authority.file, proxy=url))
        return opened[-1]

    yield open_
    for fetcher in opened:
        await fetcher.close()


async def get(fetcher, url, **fields):
    return await fetcher.fetch(Request(url, **fields), user_agent=AGENT)


def set_clock(pool):
    """Let a pool read its time from a list."""
    now = [0.0]
    pool._clock = lambda: now[0]
    pool._worked_at = 0.0
    return now


# ── each kind of proxy ──


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("kind", ["http", "https", "socks5", "socks5h"])
@pytest.mark.parametrize("login", [None, ("us@er", "p@s:s/w?rd")])
async def test_pages_are_fetched_through_each_kind_of_proxy(kind, scheme, login, sites, through, authority):
    tls = authority.server("127.0.0.1") if kind == "https" else None
    async with ProxyServer("socks5" if "socks" in kind else "http", tls=tls) as proxy:
        proxy.login = login
        place = f"{kind}://us%40er:p%40s%3As%2Fw%3Frd@{proxy.place}" if login else f"{kind}://{proxy.place}"
        fetcher = through(place)
        name = "127.0.0.1" if kind == "socks5" else "a.test"  # which the proxy alone can look up
        response = await get(fetcher, sites[scheme].at("/", name))
        assert (response.status, response.body) == (200, b"a page")
        assert proxy.targets == [f"{name}:{sites[scheme].port}"]
        visit = sites[scheme].visits[0]
        assert not [header for header, _ in visit.headers.items() if header.lower().startswith("proxy")]


async def test_a_body_and_headers_pass_through_a_proxy(sites, through):
    async with ProxyServer() as proxy:
        fetcher = through(proxy)
        await get(fetcher, sites["http"].at("/", "a.test"), method="POST", body=b"a=1", headers={"X-Own": "yes"})
        visit = sites["http"].visits[0]
        assert (visit.method, visit.headers["x-own"], visit.headers["user-agent"]) == ("POST", "yes", AGENT)


async def test_names_are_looked_up_here_for_a_socks5_proxy_so_the_guard_checks_their_addresses(sites, through):
    async with ProxyServer("socks5") as proxy:
        await get(through(proxy), sites["http"].at("/", "a.localhost"))
        assert proxy.targets == [f"127.0.0.1:{sites['http'].port}"]
        with pytest.raises(ForbiddenAddress):
            await get(through(proxy, allow_private=False), sites["http"].at("/", "a.localhost"))
        assert len(proxy.targets) == 1


# ── the guard ──


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::1]",
        "10.1.2.3",
        "169.254.169.254",
        "0x7f000001",
        "localhost",
        "a.localhost",
        "db.internal",
        "intranet",
    ],
)
async def test_what_a_url_says_about_its_host_is_checked_before_a_proxy_is_asked(host, through):
    async with ProxyServer() as proxy:
        with pytest.raises(ForbiddenAddress):
            await get(through(proxy, allow_private=False), f"http://{host}/")
        assert proxy.accepted == 0


# ── whose fault it is ──

DEFINITE = {
    "dead": "refused",
    "silent": "does not reply",
    "closes": "closes connections",
    "garbage": "another protocol",
    "wrong login": "another user or password",
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("kind", ["http", "socks5h"])
@pytest.mark.parametrize("trouble", DEFINITE)
async def test_a_broken_proxy_is_at_fault(trouble, kind, scheme, sites, through):
    behavior = trouble if trouble in ("silent", "closes", "garbage") else "good"
    async with ProxyServer(kind.rstrip("h") if "socks" in kind else kind, behavior=behavior) as proxy:
        url = f"{kind}://user:{SECRET}@{proxy.place}"
        proxy.login = ("user", "another") if trouble == "wrong login" else None
        if trouble == "dead":
            await proxy.die()
        fetcher = through(url, Limits(timeout=1, connect_timeout=0.5) if trouble == "silent" else LIMITS)
        with pytest.raises(ProxyFailure, match=DEFINITE[trouble]) as failure:
            await get(fetcher, sites[scheme].at("/", "a.test"))
        assert failure.value.after > 0
        assert fetcher.proxies.room == 0
        assert DEFINITE[trouble] in fetcher.proxies.trouble
        assert SECRET not in f"{failure.value}{fetcher.proxies.trouble}"
        assert not sites[scheme].visits


async def test_a_proxy_that_returns_is_tried_by_one_fetch_and_then_by_all(sites, through):
    async with ProxyServer() as proxy:
        fetcher = through(proxy)
        pool = fetcher.proxies
        now = set_clock(pool)
        await proxy.die()
        url = sites["http"].at("/", "a.test")
        for rest in (2.0, 8.0, 30.0, 30.0):
            with pytest.raises(ProxyFailure):
                await get(fetcher, url)
            with pytest.raises(ProxyFailure):
                await get(fetcher, url)  # which rests
            now[0] += rest - 0.1
            assert pool.room == 0
            now[0] += 0.1
            assert pool.room == 1
        await proxy.start()
        with pool.use("another.test", tunnel=False), pytest.raises(ProxyFailure):
            await get(fetcher, url)  # one fetch at a time
        assert (await get(fetcher, url)).status == 200
        assert (pool.room, pool.trouble) == (None, "")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_site_that_cannot_be_reached_is_at_fault_if_the_proxy_works_for_others(scheme, sites, through):
    async with ProxyServer(behavior="refuses") as proxy:
        proxy.reaches.add("a.test")
        fetcher = through(proxy)
        now = set_clock(fetcher.proxies)
        assert (await get(fetcher, sites[scheme].at("/", "a.test"))).status == 200
        for _ in range(IN_A_ROW - 1):
            now[0] += 100
            with pytest.raises(ProxyFailure, match="though the proxy replies"):
                await get(fetcher, sites[scheme].at("/", "b.test"))
            assert fetcher.proxies.room is None  # for other hosts, it works
        now[0] += 100
        if scheme == "http":
            assert (await get(fetcher, sites[scheme].at("/", "b.test"))).status == 503
        else:
            with pytest.raises(HostUnreachable, match=r"b\.test:\d+: the proxy made no connection"):
                await get(fetcher, sites[scheme].at("/", "b.test"))


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("behavior", ["refuses", "error page"])
async def test_no_site_is_blamed_while_no_proxy_has_worked(behavior, scheme, sites, through):
    async with ProxyServer(behavior=behavior) as proxy:
        fetcher = through(proxy)
        now = set_clock(fetcher.proxies)
        for _ in range(12):
            with pytest.raises(ProxyFailure):
                await get(fetcher, sites[scheme].at("/", "a.test"))
            now[0] += 300
        assert "no response came through proxies" in fetcher.proxies.trouble


async def test_a_site_that_was_reached_lately_is_not_blamed(sites, through):
    async with ProxyServer() as proxy:
        fetcher = through(proxy)
        now = set_clock(fetcher.proxies)
        url = sites["https"].at("/", "a.test")
        assert (await get(fetcher, url)).status == 200
        fetcher._proxied.clear()  # and its open connection
        proxy.behavior = "refuses"
        for _ in range(IN_A_ROW + 2):
            with pytest.raises(ProxyFailure):
                await get(fetcher, url)
            now[0] += 100


async def test_a_slow_or_broken_page_is_that_of_its_site(sites, through):
    sites["http"].routes["/slow"] = SiteResponse("late", delay=30)
    async with ProxyServer() as proxy:
        fetcher = through(proxy, Limits(timeout=0.5, connect_timeout=30))
        with pytest.raises(FetchTimeout):
            await get(fetcher, sites["http"].at("/slow", "a.test"))
        assert (fetcher.proxies.room, proxy.checks) == (None, 1)


async def test_a_proxy_that_dies_in_the_middle_of_a_page_is_at_fault(sites, through):
    sites["http"].routes["/long"] = "x" * 50_000
    async with ProxyServer(behavior="cut") as proxy:
        fetcher = through(proxy)
        with pytest.raises(ProxyFailure, match="refused"):
            await get(fetcher, sites["http"].at("/long", "a.test"))


@pytest.mark.parametrize("status", [404, 402, 407])
async def test_a_proxy_that_marks_the_errors_of_sites_as_its_own_delays_a_site_only_once(status, sites, through):
    sites["http"].routes |= {"/gone": status, "/away": status}
    async with ProxyServer(behavior="lies") as proxy:
        fetcher = through(proxy)
        now = set_clock(fetcher.proxies)
        url = sites["http"].at("/gone", "a.test")
        for rest in (2, 8):
            with pytest.raises(ProxyFailure, match="an error page of the proxy"):
                await get(fetcher, url)
            now[0] += rest
        assert (await get(fetcher, url)).status == status
        assert (await get(fetcher, sites["http"].at("/away", "a.test"))).status == status
        assert (await get(fetcher, sites["http"].at("/", "a.test"))).status == 200


async def test_an_error_page_like_the_reply_to_a_check_is_believed_after_many_minutes(sites, through):
    sites["http"].routes["*"] = 503  # which is what the proxy says of a host that cannot exist
    async with ProxyServer(behavior="lies") as proxy:
        fetcher = through(proxy)
        now = set_clock(fetcher.proxies)
        for _ in range(LIKE_THE_CHECK - 1):
            with pytest.raises(ProxyFailure):
                await get(fetcher, sites["http"].at("/", "a.test"))
            now[0] += 30
        assert (await get(fetcher, sites["http"].at("/", "a.test"))).status == 503


# ── how proxies are written ──


def test_the_text_of_a_proxy_has_no_password():
    for scheme, port in {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}.items():
        proxy = read_proxy(f"{scheme}://user:{SECRET}@proxy.example")
        assert (str(proxy), proxy.port, proxy.password) == (f"{scheme}://proxy.example:{port}", port, SECRET)
        assert SECRET not in repr(proxy)
    options = FetchOptions(proxy=f"http://user:{SECRET}@proxy.example:8080")
    assert SECRET not in repr(options)
    assert "proxy.example:8080" in repr(options)
    assert read_proxy("proxy.example:3128") == read_proxy("http://proxy.example:3128/")
    assert read_proxy("http://[::1]:80").url == "http://[::1]:80"
    assert Proxies("http://a:1") == Proxies(["http://a:1"])


@pytest.mark.parametrize(
    "text",
    [
        "no proxy",
        "",
        f"ftp://user:{SECRET}@proxy.example:21",
        f"user:{SECRET}@proxy.example:8080",
        f"proxy.example:8080:user:{SECRET}",
        f"http://user:{SECRET}@proxy.example:99999",
        f"http://user:{SECRET}@proxy.example/{SECRET}",
        f"http://proxy.example:8080/?password={SECRET}",
        f"http://user:{SECRET}#@proxy.example:8080",
        f"http://user:{SECRET}@/",
    ],
)
def test_errors_about_proxies_have_no_password(text):
    with pytest.raises(ConfigError, match="is not the URL of a proxy") as error:
        FetchOptions(proxy=text)
    assert SECRET not in str(error.value)


def test_a_proxy_is_a_url():
    with pytest.raises(ConfigError, match="must be a URL"):
        FetchOptions(proxy=8080)
    with pytest.raises(ConfigError, match="empty"):
        FetchOptions(proxy=[])


# ── several proxies ──


@pytest.fixture
async def servers():
    """Starts proxies."""
    started = []

    async def start(count, **options):
        for _ in range(count):
            started.append(ProxyServer(**options))
            await started[-1].start()
        return started[-count:]

    yield start
    for server in started:
        await server.die()


async def several(fetcher, site, count, hosts=1, **fields):
    """Fetch pages one after another; returns how many could be fetched."""
    fetched = 0
    for number in range(count):
        with suppress(ProxyFailure):
            await get(fetcher, site.at("/", f"h{number % hosts}.test"), **fields)
            fetched += 1
    return fetched


async def checked(fetcher, site):
    """Return the pool of a fetcher once all its proxies were checked."""
    await several(fetcher, site, 1)
    await asyncio.gather(*fetcher.proxies._tasks)
    return fetcher.proxies


async def test_requests_take_turns_among_all_proxies(servers, sites, through):
    proxies = await servers(5)
    fetcher = through([proxy.url for proxy in proxies])
    await checked(fetcher, sites["http"])
    assert await several(fetcher, sites["http"], 100, hosts=3) == 100
    assert all(len(proxy.targets) >= 10 for proxy in proxies)


async def test_a_host_stays_with_its_proxy_and_moves_when_that_dies(servers, sites, through):
    proxies = await servers(5)
    fetcher = through(Proxies([proxy.url for proxy in proxies], rotate="host"))
    assert await several(fetcher, sites["http"], 60, hosts=20) == 60
    of_host = {target: proxy for proxy in proxies for target in proxy.targets}
    assert sum(len(set(proxy.targets)) for proxy in proxies) == 20
    lost = of_host[f"h0.test:{sites['http'].port}"]
    kept = {target: proxy for target, proxy in of_host.items() if proxy is not lost}
    await lost.die()
    await several(fetcher, sites["http"], 40, hosts=20)  # one of them fails
    assert await several(fetcher, sites["http"], 20, hosts=20) == 20
    assert all(target in proxy.targets for target, proxy in kept.items())
    assert sum(len(set(proxy.targets)) for proxy in proxies if proxy is not lost) == 20


async def test_a_session_stays_with_its_proxy(servers, sites, through):
    proxies = await servers(4)
    fetcher = through(Proxies([proxy.url for proxy in proxies], rotate="session"))
    for name in "abcdefgh":
        before = [len(proxy.targets) for proxy in proxies]
        await several(fetcher, sites["http"], 6, hosts=6, meta={"session": name})
        assert sorted(len(proxy.targets) - old for proxy, old in zip(proxies, before, strict=True)) == [0, 0, 0, 6]
    await checked(fetcher, sites["http"])
    before = [len(proxy.targets) for proxy in proxies]
    await several(fetcher, sites["http"], 20)
    assert all(len(proxy.targets) > old for proxy, old in zip(proxies, before, strict=True)), (
        "without one, they take turns"
    )


async def test_no_more_fetches_than_the_concurrency_use_a_proxy_at_a_time(servers, sites, through):
    sites["http"].routes["*"] = SiteResponse("a page", delay=0.1)
    proxies = await servers(3)
    fetcher = through(Proxies([proxy.url for proxy in proxies], concurrency=2))
    pool = await checked(fetcher, sites["http"])
    assert pool.room == 6
    running = [asyncio.create_task(get(fetcher, sites["http"].at("/", f"h{number}.test"))) for number in range(6)]
    while sum(pooled.running for pooled in pool._order) < 6:  # noqa: ASYNC110 - the tasks have no event for it
        await asyncio.sleep(0)
    assert [pooled.running for pooled in pool._order] == [2, 2, 2]
    with pytest.raises(ProxyFailure, match=r"no proxy can be used for h9\.test now"):
        await get(fetcher, sites["http"].at("/", "h9.test"))
    await asyncio.gather(*running)


@pytest.mark.parametrize("trouble", ["dead", "silent", "closes", "wrong login"])
async def test_dead_proxies_are_found_without_pages_and_return_when_they_work(trouble, servers, sites, through):
    good, bad = await servers(3), await servers(3)
    urls = [proxy.url for proxy in (*bad, *good)]
    for proxy in bad:
        proxy.behavior = trouble if trouble in ("silent", "closes") else "good"
        proxy.login = ("user", "another") if trouble == "wrong login" else None
        if trouble == "dead":
            await proxy.die()
    fetcher = through(urls, Limits(timeout=60, connect_timeout=0.5) if trouble == "silent" else LIMITS)
    pool = fetcher.proxies
    now = set_clock(pool)
    while pool.counts["resting"] < 3:
        await several(fetcher, sites["http"], 1)
    assert (await several(fetcher, sites["http"], 30), pool.trouble) == (30, "")
    tries = [proxy.accepted for proxy in bad]
    for _ in range(40):  # in 20 seconds, each is tried twice more
        now[0] += 0.5
        assert await several(fetcher, sites["http"], 1) == 1
        await asyncio.gather(*pool._tasks)
    assert all(proxy.accepted - before <= 2 for proxy, before in zip(bad, tries, strict=True))
    for proxy in bad:
        proxy.behavior, proxy.login = "good", None
        if trouble == "dead":
            await proxy.start()
    now[0] += 300
    await several(fetcher, sites["http"], 1)
    await asyncio.gather(*pool._tasks)
    while pool.counts["ready"] < 6:
        assert await several(fetcher, sites["http"], 1) == 1


async def test_many_silent_proxies_at_the_beginning_of_a_list_do_not_keep_pages_waiting(servers, sites, through):
    (silent,), (good,) = await servers(1, behavior="silent"), await servers(1)
    urls = [f"http://{number}@{silent.place}" for number in range(2 * CHECKS)]
    urls += [f"http://{number}@{good.place}" for number in range(CHECKS)]
    fetcher = through(urls, Limits(timeout=300, connect_timeout=300))
    while not await several(fetcher, sites["http"], 1):
        pass
    assert await several(fetcher, sites["http"], 20) == 20


async def test_a_page_is_tried_through_another_proxy_at_once(servers, sites, through):
    proxies = await servers(3, behavior="refuses")
    proxies[0].reaches |= {"a.test", "h0.test"}
    fetcher = through([proxy.url for proxy in proxies])
    pool = await checked(fetcher, sites["http"])
    await several(fetcher, sites["http"], 9)
    failures = []
    while True:
        try:
            response = await get(fetcher, sites["https"].at("/", "a.test"))
            break
        except ProxyFailure as failure:
            failures.append(failure.after)
    assert response.status == 200
    assert failures in ([], [0.0], [0.0, 0.0])
    assert pool.room is None


# ── lists of proxies ──


def test_a_list_in_a_file_has_urls_comments_and_lines_with_a_login(tmp_path):
    file = tmp_path / "proxies.txt"
    file.write_text(
        f"# mine\nhttp://a.example:8080\n\n b.example:3128 \nc.example:1:user:{SECRET}\nhttp://a.example:8080\n"
    )
    found = Proxies(f"file:{file}")
    assert [str(proxy) for proxy in found.listed] == [
        "http://a.example:8080",
        "http://b.example:3128",
        "http://c.example:1",
    ]
    assert (found.listed[2].user, found.listed[2].password) == ("user", SECRET)
    assert repr(found) == f"Proxies(file:{file})"
    file.write_text(f"a.example:8080\nuser:{SECRET}@b.example:x\n")
    with pytest.raises(ConfigError, match="line 2 of file:") as error:
        Proxies(f"file:{file}")
    assert SECRET not in str(error.value)
    file.write_text("# nothing\n")
    with pytest.raises(ConfigError, match="lists no proxies"):
        Proxies(f"file:{file}")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Proxies("file:missing.txt")


@pytest.mark.parametrize("kind", ["url", "function", "async function", "file"])
async def test_a_list_is_read_again_while_the_crawl_runs(kind, servers, sites, through, tmp_path):
    old, new = await servers(2)
    file = tmp_path / "proxies.txt"
    file.write_text(old.place)
    sites["http"].routes["/list"] = old.place
    lines = [old.url]

    async def function():
        return lines

    source = {
        "url": f"url:{sites['http'].url}list?key={SECRET}",
        "function": lambda: lines,
        "async function": function,
        "file": f"file:{file}",
    }[kind]
    fetcher = through(Proxies(source))
    pool = fetcher.proxies
    now = set_clock(pool)
    pool._load_at = 0.0
    assert await several(fetcher, sites["http"], 3) == 3
    assert (len(old.targets), len(new.targets)) == (3, 0)
    file.write_text(f"{new.place}\n")
    sites["http"].routes["/list"], lines[:] = new.place, [new.url]
    now[0] += 301
    await several(fetcher, sites["http"], 1)
    await asyncio.gather(*pool._tasks)
    assert await several(fetcher, sites["http"], 3) == 3
    assert len(new.targets) >= 3
    assert SECRET not in repr(fetcher.proxies._settings)


@pytest.mark.parametrize("how", ["status", "nothing", "function"])
async def test_a_list_that_cannot_be_read_lets_pages_wait(how, servers, sites, through, caplog):
    (server,) = await servers(1)
    broken = [True]
    sites["http"].routes["/list"] = 500 if how == "status" else "# none yet"

    def function():
        if broken[0]:
            raise KeyError(SECRET)
        return server.url

    fetcher = through(Proxies(function if how == "function" else f"url:{sites['http'].url}list?key={SECRET}"))
    pool = fetcher.proxies
    now = set_clock(pool)
    pool._load_at = 0.0
    with pytest.raises(ProxyFailure) as failure:
        await get(fetcher, sites["http"].at("/", "a.test"))
    expected = {"status": "status 500", "nothing": "lists no proxies", "function": "raised KeyError"}[how]
    assert expected in str(failure.value)
    assert (pool.room, pool.trouble) == (0, str(failure.value))
    broken[0], sites["http"].routes["/list"] = False, server.place
    now[0] += 20
    assert pool.room == 1
    assert (await get(fetcher, sites["http"].at("/", "a.test"))).status == 200
    assert SECRET not in f"{caplog.text}{failure.value}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rotate": "page"}, "rotate must be one of request, host, session"),
        ({"concurrency": 0}, "concurrency of a proxy must be at least 1"),
        ({"refresh": 0}, "refresh must be"),
        ({"source": "url:ftp://list.example/"}, "not the URL of a list"),
    ],
)
def test_settings_of_proxies_are_checked(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Proxies(**{"source": "http://a.example:1", **arguments})
