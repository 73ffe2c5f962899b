"""LocalSite and Shop are what they say: others' proofs of politeness stand on them."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from silkline.errors import ConfigError
from silkline.testing import LocalSite, Raw, Shop, SiteProcess, SiteResponse
from silkline.testing.site import healing, redirect
from tests.hostile_site.pages import HOSTILE_SITE, hostile_pages, hostile_robots


def get(url, method="GET", body=None, **headers):
    host, _, path = url.partition("://")[2].partition("/")
    connection = http.client.HTTPConnection(host.replace("a.localhost", "127.0.0.1"), timeout=30)
    try:
        connection.request(method, f"/{path}", body=body, headers={"Host": host, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_routes_answer_in_all_their_forms():
    async def later(visit):
        await asyncio.sleep(0)
        return f"for {visit.headers['x-who']}"

    routes = {
        "/": "front",
        "/bytes.json": b"[1]",
        "/status": 503,
        "/answer": SiteResponse("teapot", status=418, headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]),
        "/function": lambda visit: visit.body.decode(),
        "/later": later,
        "/query?a=1": "with a",
        "/query": "any other",
        "/below/*": "below",
        "/below/deep/*": "deep below",
        "//127.0.0.2/": "the second host's front",
        "//a.localhost/below/*": "by name",
    }
    with LocalSite(routes, hosts=2) as site:
        assert get(site.url)[:2] == (200, "front")
        assert get(site.at("/", 1))[:2] == (200, "the second host's front")
        assert get(site.at("/bytes.json"))[2]["Content-Type"] == "application/json"
        assert get(site.at("/status"))[0] == 503
        assert get(site.at("/answer"))[2].get_all("Set-Cookie") == ["a=1", "b=2"]
        assert get(site.at("/function"), "POST", b"hello")[1] == "hello"
        assert get(site.at("/function"), "POST", iter([b"in ", b"chunks"]))[1] == "in chunks"
        assert get(site.at("/later"), **{"X-Who": "you"})[1] == "for you"
        assert get(site.at("/query?a=1"))[1] == "with a"
        assert get(site.at("/query?b"))[1] == "any other"
        assert get(site.at("/below/x"))[1] == "below"
        assert get(site.at("/below/deep/x"))[1] == "deep below"
        assert get(site.at("/below/x", "a.localhost"))[1] == "by name"
        assert get(site.at("/nowhere"))[0] == 404
        assert get(site.url, "HEAD")[1] == ""


def test_routes_may_heal_and_redirect_and_change():
    with LocalSite({"/ill": healing(500, "well", 2), "/old": redirect("/new", 301)}) as site:
        assert [get(site.at("/ill"))[0] for _ in range(4)] == [500, 500, 200, 200]
        status, _, headers = get(site.at("/old"))
        assert (status, headers["Location"]) == (301, "/new")
        site.routes["/new"] = "here"
        assert get(site.at("/new"))[1] == "here"


def test_robots_are_a_route():
    with LocalSite(robots="User-agent: *\nDisallow: /private") as site:
        assert "Disallow: /private" in get(site.at("/robots.txt"))[1]
    with LocalSite() as site:
        assert get(site.at("/robots.txt"))[0] == 404


def test_visits_tell_what_came_where_and_when():
    with LocalSite({"/*": "page"}, hosts=2) as site:
        for path, host in (("/a", 0), ("/b?c=d", 0), ("/a", 1), ("/e", 0)):
            get(site.at(path, host), **{"X-Name": "value"})
        first, second = site.hosts
        assert site.visits.paths == ["/a", "/b?c=d", "/a", "/e"]
        assert site.visits.hosts == {first, second}
        assert len(site.visits.gaps()) == len(site.visits.gaps(first)) == 2
        assert site.visits.smallest_gap(second) == float("inf")
        assert site.visits.smallest_gap() == min(site.visits.gaps(first)) > 0
        assert site.visits.to(first, "/b").paths == ["/b?c=d"]
        assert (site.visits[0].method, site.visits[0].headers["x-name"]) == ("GET", "value")
        assert {visit.address for visit in site.visits.to(second)} == {"127.0.0.2"}
        site.forget()
        assert len(site.visits) == 0
        assert site.visits.greatest_concurrency() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when data arrived")
async def test_visits_are_noted_when_they_arrive_however_late_the_site_gets_to_them():
    async with LocalSite({"/*": "page"}) as site:
        with (
            socket.create_connection(("127.0.0.1", site.port)) as one,
            socket.create_connection(one.getpeername()) as other,
        ):
            head = f" HTTP/1.1\r\nHost: {site.hosts[0]}\r\n\r\n"
            one.sendall(f"GET /early{head}".encode())
            time.sleep(0.3)  # noqa: ASYNC251 - the event loop of the site is busy
            other.sendall(f"GET /late{head}".encode())
            while len(site.visits) < 2:  # noqa: ASYNC110 - the site has no event for it
                await asyncio.sleep(0.01)
        early, late = sorted(site.visits, key=lambda visit: visit.path)
    assert late.at - early.at > 0.25


async def test_concurrency_is_counted_by_host():
    release, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(visit):
        arrived.release()
        await release.wait()
        return "done"

    async with LocalSite({"/wait": wait, "/quick": "quick"}, hosts=2) as site:
        asks = [asyncio.to_thread(get, site.at("/wait", host)) for host in (0, 0, 0, 1)]
        waiting = [asyncio.create_task(ask) for ask in asks]
        for _ in waiting:
            await arrived.acquire()
        await asyncio.to_thread(get, site.at("/quick", 1))
        release.set()
        await asyncio.gather(*waiting)
        first, second = site.hosts
        assert site.visits.greatest_concurrency(first) == 3
        assert site.visits.greatest_concurrency(second) == site.visits[-1].in_flight == 2
        assert site.visits.greatest_concurrency() == 3
        site.forget()
        await asyncio.to_thread(get, site.at("/quick"))
        assert site.visits.greatest_concurrency() == 1  # those before have ended


async def test_a_raw_answer_ends_when_its_client_leaves():
    left = asyncio.Event()

    async def endless(wire, visit):
        try:
            while True:
                await wire.send(b"x" * 65536)
        finally:
            left.set()

    async with LocalSite({"/": Raw(endless)}) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.read(10)
        writer.close()
        await left.wait()


async def test_pipelined_and_split_requests_are_answered_in_order():
    async with LocalSite({"/slow": SiteResponse("slow", delay=0.05), "/quick": "quick"}) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        asked = b"".join(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path for path in (b"/slow", b"/quick", b"/slow"))
        for cut in (asked[:70], asked[70:71], asked[71:]):
            writer.write(cut)
            await writer.drain()
        text = b""
        while text.count(b"\r\n\r\nslow") < 2:
            text += await reader.read(1000)
        assert text.index(b"\r\n\r\nslow") < text.index(b"\r\n\r\nquick") < text.rindex(b"\r\n\r\nslow")
        writer.close()


def test_two_sites_do_not_want_the_same_port_by_chance():
    with LocalSite(hosts=3) as one, LocalSite(hosts=3) as other:
        assert one.port != other.port
        with pytest.raises(ConfigError, match="cannot listen on"), LocalSite(port=one.port):
            pass


@pytest.mark.parametrize("pages", [2, 21, 22, 500])
def test_a_shop_has_as_many_pages_as_it_says(pages):
    shop = Shop(pages=pages)
    paths = list(shop.paths())
    assert len(paths) == len(set(paths)) == pages
    assert len(shop.items) == shop.products == pages - shop.listings


def test_every_page_of_a_shop_is_reached_by_its_links_and_every_item_found():
    shop = Shop(pages=300, slow=0.01)
    with LocalSite(shop) as site:
        waiting, seen, found = ["/"], {"/"}, []
        while waiting:
            path = waiting.pop()
            status, text, headers = get(site.at(path))
            if status in (429, 500):
                waiting.append(path)
                continue
            links = [piece.partition('"')[0] for piece in text.split('href="')[1:]]
            links += [headers["Location"]] if status == 301 else []
            if path.startswith("/product/"):
                found.append(tuple(text.split(f"class={name}>")[1].partition("<")[0] for name in ("sku", "price")))
            for link in links:
                if not link.startswith("/calendar") and link not in seen:
                    seen.add(link)
                    waiting.append(link)
        assert {path for path in seen if not path.startswith("/old/")} == set(shop.paths())
        assert sorted(found) == sorted((item["sku"], item["price"]) for item in shop.items)
        counts = [len(site.visits.to(path=f"/product/{number}")) for number in range(40)]
        tries = {"": 1, "slow": 1, "moved": 1, "busy": 2, "busy-until": 2, "broken": 3}
        assert counts == [tries[shop.trouble_of(number)] for number in range(40)]


def test_the_shop_of_the_benchmarks_has_pages_of_the_same_size_with_32_links():
    shop = Shop(pages=100, page_bytes=11_000, trouble=False)
    with LocalSite(shop) as site:
        for path in ("/", "/listing/1", "/product/0", "/product/94"):
            _, text, _ = get(site.at(path))
            assert len(text) == 11_000
            assert text.count("<a ") == 32


def test_the_calendar_is_a_trap():
    with LocalSite(Shop(pages=50)) as site:
        assert "/calendar/1000000001" in get(site.at("/calendar/1000000000"))[1]


def test_a_site_in_a_process_of_its_own():
    with SiteProcess(Shop(pages=50), hosts=2) as site:
        assert get(site.at("/product/3", 1))[0] == 200
        assert site.visits.paths == ["/product/3"]
        assert site.visits[0].host == site.hosts[1]
        site.forget()
        assert len(site.visits) == 0
        process = psutil.Process(site.pid)
    assert not process.is_running()


def test_the_process_ends_when_its_parent_is_killed():
    code = (
        "import sys, time\nfrom silkline.testing import SiteProcess, Shop\n"
        "site = SiteProcess(Shop(pages=50)); site.start(); print(site.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    child.wait(30)


def test_people_can_start_it_too():
    command = [sys.executable, "-W", "error", "-m", "silkline.testing.site", "--pages", "50", "--hosts", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().split()[2]
    assert get(url)[0] == 200
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(100) == 0
    process.stdout.close()


def test_a_process_serves_the_routes_of_a_function():
    with SiteProcess(HOSTILE_SITE) as site:
        assert get(site.at("/retry-after/words"))[0] == 429


def test_there_are_hostile_pages_and_robots_to_merge():
    assert {"/giant", "/slow-loris", "/bomb/br", "/redirect/loop", "/reset"} <= hostile_pages().keys()
    with LocalSite(robots=hostile_robots()["million-rules"]) as site:
        assert get(site.at("/robots.txt"))[1].count("Disallow") == 1_000_000
