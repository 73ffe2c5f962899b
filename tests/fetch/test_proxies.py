"""Pages are fetched through proxies, and what a proxy breaks is the proxy's fault."""

from __future__ import annotations

import pytest

from silkline import FetchOptions, Request
from silkline.errors import ConfigError, FetchTimeout, ForbiddenAddress, HostUnreachable, ProxyFailure
from silkline.fetch.guard import Guard
from silkline.fetch.limits import Limits
from silkline.fetch.proxies import IN_A_ROW, Proxies, read_proxy
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
        url = proxy if isinstance(proxy, str) else proxy.url
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
        fetcher._proxied = None  # and its open connection
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
