"""Row 24 of the fault matrix: a crawler connects to public addresses only, whatever names, numbers and DNS say."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silkline import Request
from silkline.errors import FetchError, ForbiddenAddress, HostUnreachable
from silkline.fetch.addresses import why_forbidden
from silkline.fetch.guard import Guard, read_target
from silkline.fetch.limits import Limits
from silkline.fetch.resolver import SystemResolver
from silkline.testing import LocalSite, SiteResponse

AGENT = "silkline-test/1"
PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e", "64:ff9b::5db8:d822"]
OWN = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
    "100.127.255.255", "198.18.0.1", "::1", "fc00::1", "fd12:3456::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
    "64:ff9b::10.0.0.1", "2002:7f00:1::", "2002:a00:1::1",
]  # fmt: skip
NEVER = [
    "0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    "192.0.2.1", "192.88.99.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "::", "fe80::1", "fec0::1", "ff02::1", "fd00:ec2::254", "2001:db8::1", "2001::1", "3fff::1",
    "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::7f00:1", "64:ff9b:1::1", "4000::1", "100::1",
]  # fmt: skip


class FakeResolver:
    """Answers from a list, one after another, for ever."""

    def __init__(self, *answers):
        self._answers = itertools.cycle(answers)
        self.asked = []

    async def resolve(self, host):
        self.asked.append(host)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return [answer] if isinstance(answer, str) else answer

    async def close(self):
        pass


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_permitted(text):
    assert why_forbidden(ipaddress.ip_address(text)) is None


@pytest.mark.parametrize("text", OWN)
def test_own_addresses_only_when_allowed(text):
    address = ipaddress.ip_address(text)
    assert why_forbidden(address)
    assert why_forbidden(address, allow_private=True) is None


@pytest.mark.parametrize("text", NEVER)
def test_special_addresses_never(text):
    assert why_forbidden(ipaddress.ip_address(text))
    assert why_forbidden(ipaddress.ip_address(text), allow_private=True)


@given(st.ip_addresses())
def test_nothing_that_python_calls_special_is_permitted(address):
    if address.version == 4 and (not address.is_global or address.is_multicast):
        assert why_forbidden(address)
    if address.version == 6 and address not in ipaddress.ip_network("64:ff9b::/96"):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            assert why_forbidden(address) == why_forbidden(inner)
        elif not address.is_global or address.is_multicast or address.is_reserved:
            assert why_forbidden(address)


NUMBERS = [
    "2130706433", "0x7f000001", "017700000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.1.", "0", "0.0.0.0",
    "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "①②⑦.⓪.⓪.①", "127。0。0。1", "%31%32%37.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", NUMBERS)
async def test_every_spelling_of_loopback_is_seen_through(host, open_fetcher):
    async with LocalSite({"/": "secret"}) as site:
        fetcher = open_fetcher(guard=Guard())
        with pytest.raises(ForbiddenAddress) as caught:
            await fetcher.fetch(Request(f"http://{host}:{site.port}/"), user_agent=AGENT)
        assert caught.value.kind == "forbidden_address"
        assert site.connections_made == 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "a.localhost", "localhost.", "b.a.localhost."])
async def test_the_machine_itself_by_name(host, open_fetcher):
    async with LocalSite({"/": "secret"}) as site:
        url = f"http://{host}:{site.port}/"
        with pytest.raises(ForbiddenAddress, match="loopback"):
            await open_fetcher(guard=Guard()).fetch(Request(url), user_agent=AGENT)
        assert site.connections_made == 0
        assert (await open_fetcher().fetch(Request(url), user_agent=AGENT)).body == b"secret"


async def test_a_name_with_one_bad_address_is_refused(open_fetcher):
    guard = Guard(resolver=FakeResolver(["93.184.216.34", "10.0.0.5"]))
    with pytest.raises(
        ForbiddenAddress, match=r"intranet\.example has the private address 10\.0\.0\.5; start with --allow-private"
    ):
        await open_fetcher(guard=guard).fetch(Request("http://intranet.example/"), user_agent=AGENT)


async def test_metadata_is_refused_even_in_an_intranet(open_fetcher):
    guard = Guard(allow_private=True, resolver=FakeResolver("169.254.169.254"))
    with pytest.raises(ForbiddenAddress) as caught:
        await open_fetcher(guard=guard).fetch(Request("http://metadata.example/"), user_agent=AGENT)
    assert "allow" not in str(caught.value)


async def test_dns_rebinding_gains_nothing(open_fetcher):
    """The name means a permitted address first and a forbidden one at every second look; nothing reaches the latter.

    To have both on loopback, 127.0.0.1 stands for the public address and 127.0.0.2 for the private one.
    """
    resolver = FakeResolver("127.0.0.1", "127.0.0.2")
    secret = ipaddress.ip_address("127.0.0.2")
    guard = Guard(resolver=resolver, forbid=lambda address: "private" if address == secret else None, ttl=0)
    page = SiteResponse("page", headers={"Connection": "close"})  # so that each request needs a connection of its own
    async with LocalSite({"/*": page}, hosts=2) as site:
        fetcher = open_fetcher(guard=guard)
        ends = []
        for number in range(20):
            request = Request(site.at(f"/{number}", "rebind.example"))
            try:
                ends.append((await fetcher.fetch(request, user_agent=AGENT)).status)
            except ForbiddenAddress:
                ends.append("forbidden")
        assert ends == [200, "forbidden"] * 10
        assert {visit.address for visit in site.visits} == {"127.0.0.1"}


async def test_the_connection_goes_where_the_guard_looked_not_where_the_name_leads(open_fetcher):
    """The system says that localhost is 127.0.0.1; our resolver says 127.0.0.2, so it is 127.0.0.2."""
    guard = Guard(allow_private=True, resolver=FakeResolver("127.0.0.2"))
    async with LocalSite({"/": "page"}, hosts=2) as site:
        fetcher = open_fetcher(guard=guard)
        for name in ("localhost", "pinned.example", "trailing.example.", "UPPER.example", "xn--bcher-kva.example"):
            await fetcher.fetch(Request(site.at("/", name)), user_agent=AGENT)
        assert {visit.address for visit in site.visits} == {"127.0.0.2"}
        assert site.visits[0].host == f"localhost:{site.port}"


async def test_a_moved_name_is_followed_when_its_time_is_over(open_fetcher):
    guard = Guard(allow_private=True, resolver=FakeResolver("127.0.0.1", "127.0.0.2"), ttl=0.2)
    async with LocalSite({"/": SiteResponse("page", headers={"Connection": "close"})}, hosts=2) as site:
        fetcher = open_fetcher(guard=guard)
        async with asyncio.timeout(30):
            while {visit.address for visit in site.visits} != {"127.0.0.1", "127.0.0.2"}:
                await fetcher.fetch(Request(site.at("/", "moving.example")), user_agent=AGENT)


async def test_the_next_address_is_tried(open_fetcher):
    guard = Guard(allow_private=True, resolver=FakeResolver(["127.0.0.9", "127.0.0.1"]))
    async with LocalSite({"/": "page"}) as site:
        response = await open_fetcher(guard=guard).fetch(Request(site.at("/", "two.example")), user_agent=AGENT)
        assert response.body == b"page"


async def test_a_name_is_looked_up_once_by_all_and_remembered(open_fetcher):
    resolver = FakeResolver("127.0.0.1")
    async with LocalSite({"/": "page"}) as site:
        fetcher = open_fetcher(guard=Guard(allow_private=True, resolver=resolver))
        request = Request(site.at("/", "many.example"))
        await asyncio.gather(*(fetcher.fetch(request, user_agent=AGENT) for _ in range(20)))
        await fetcher.fetch(request, user_agent=AGENT)
        assert resolver.asked == ["many.example"]


async def test_who_gives_up_does_not_take_the_others_answer_along():
    release = asyncio.Event()

    class Slow(FakeResolver):
        async def resolve(self, host):
            self.asked.append(host)
            await release.wait()
            return ["127.0.0.1"]

    guard = Guard(allow_private=True, resolver=Slow())
    target = read_target("http://slow.example/")
    first, second = (asyncio.create_task(guard.addresses(target)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert await second
    assert first.cancelled()


@pytest.mark.parametrize("answer", [[], ["nonsense"], HostUnreachable("no such name", "dns")], ids=repr)
async def test_a_name_without_address(answer, open_fetcher):
    resolver = FakeResolver(answer)
    fetcher = open_fetcher(guard=Guard(resolver=resolver))
    for _ in range(2):
        with pytest.raises(HostUnreachable) as caught:
            await fetcher.fetch(Request("http://nowhere.example/"), user_agent=AGENT)
        assert caught.value.kind == "dns"
    assert len(resolver.asked) == 1  # a failure is remembered too, for a moment


async def test_the_systems_resolver_says_when_there_is_no_such_name():
    resolver = SystemResolver(timeout=20)
    with pytest.raises(HostUnreachable, match="no address for"):
        await resolver.resolve("does-not-exist.invalid")
    await resolver.close()


async def test_the_systems_resolver_has_a_time_limit(monkeypatch):
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stuck(name, *_, **__):  # a name server that does not answer
        if name != "stuck.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    resolver = SystemResolver(timeout=0.05)
    with pytest.raises(HostUnreachable, match=r"within 0\.05 s"):
        await resolver.resolve("stuck.example")
    release.set()
    await resolver.close()


async def test_a_look_up_is_within_the_deadline(open_fetcher):
    class Never(FakeResolver):
        async def resolve(self, host):
            await asyncio.Event().wait()

    fetcher = open_fetcher(Limits(timeout=0.2), guard=Guard(resolver=Never()))
    with pytest.raises(FetchError, match=r"looking up the address|connecting") as caught:
        await fetcher.fetch(Request("http://never.example/"), user_agent=AGENT)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "file:///etc/passwd", "data:text/html,x", "javascript:alert(1)", "gopher://example.com/",
        "/relative", "", "http://", "http://exa mple.com/", "http://a..b/", "http://[::1", "http://example.com:99999/",
        "http://exa$mple.com/", "http://(example).com/", "http://example.com\x00.evil.example/", "http://-/",
    ],
)  # fmt: skip
async def test_what_is_no_url_to_fetch(url, open_fetcher):
    resolver = FakeResolver("127.0.0.1")
    with pytest.raises(FetchError) as caught:
        await open_fetcher(guard=Guard(resolver=resolver)).fetch(Request(url), user_agent=AGENT)
    assert caught.value.kind in ("bad_url", "forbidden_address")
    if caught.value.kind == "bad_url":
        assert resolver.asked == []


@pytest.mark.parametrize("port", [0, 22, 25, 587, 6667])
async def test_ports_of_other_protocols(port, open_fetcher):
    with pytest.raises(ForbiddenAddress, match=f"port {port}"):
        await open_fetcher().fetch(Request(f"http://127.0.0.1:{port}/"), user_agent=AGENT)


async def test_the_host_in_the_url_is_the_one_after_the_at_sign(open_fetcher):
    resolver = FakeResolver("127.0.0.1")
    async with LocalSite({"/*": lambda visit: visit.headers["authorization"]}) as site:
        guard = Guard(allow_private=True, resolver=resolver)
        url = f"http://good.example:80%40@evil.example:{site.port}/\\@other.example/"
        response = await open_fetcher(guard=guard).fetch(Request(url), user_agent=AGENT)
        assert resolver.asked == ["evil.example"]
        assert response.body == b"Basic Z29vZC5leGFtcGxlOjgwQA=="  # good.example:80@
