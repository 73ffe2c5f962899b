"""What a page asks for in a browser goes through the guard: a private address is reached in no way."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from silkline.fetch.browser.guard_proxy import GuardDial, GuardProxy
from silkline.fetch.browser.options import Rendering
from silkline.fetch.guard import Guard
from silkline.testing import SiteResponse
from tests.browser.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Trap:
    """A service in a private network: on 127.0.0.2 and ::1, with TCP and UDP. It counts who comes."""

    def __init__(self):
        self.visits = []
        self.port = 0

    async def __aenter__(self):
        self._stack = AsyncExitStack()
        server = await asyncio.start_server(self._visited, "127.0.0.2", 0)
        self.port = server.sockets[0].getsockname()[1]
        servers = [server, await asyncio.start_server(self._visited, "::1", self.port)]
        for one in servers:
            self._stack.callback(one.close)
        loop = asyncio.get_running_loop()
        for address in ("127.0.0.1", "127.0.0.2", "::1"):
            transport, _ = await loop.create_datagram_endpoint(lambda: Datagrams(self), (address, self.port))
            self._stack.callback(transport.close)
        return self

    async def __aexit__(self, *_):
        await self._stack.aclose()

    async def _visited(self, reader, writer):
        self.visits.append((writer.get_extra_info("sockname")[0], await reader.read(100)))
        writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, trap):
        self._trap = trap

    def datagram_received(self, data, address):
        self._trap.visits.append((address, data))


WAYS = """
<!doctype html><body>
<link rel=prefetch href="http://inside.test:PORT/prefetch"><link rel=preconnect href="http://inside.test:PORT">
<link rel=dns-prefetch href="//inside.test"><link rel=stylesheet href="http://inside.test:PORT/style">
<style>@import "http://127.0.0.2:PORT/import"; body {background: url(http://127.0.0.2:PORT/background)}</style>
<img src="http://127.0.0.2:PORT/image"><img src="http://2130706434:PORT/number"><img src="http://[::1]:PORT/six">
<img src="http://[::ffff:127.0.0.2]:PORT/mapped"><img src="http://0x7f.2:PORT/hex"><img src="http://localhost:PORT/name">
<img src="/to-inside"><img src="http://both.test:PORT/both"><img src="http://rebound.test:PORT/rebound">
<iframe src="http://inside.test:PORT/frame"></iframe><iframe src="/frame"></iframe>
<object data="http://inside.test:PORT/object"></object><embed src="http://inside.test:PORT/embed">
<video src="http://inside.test:PORT/video"></video><script src="http://inside.test:PORT/script"></script>
<form id=form action="http://inside.test:PORT/form" method=post target=target></form><iframe name=target></iframe>
<script>
  const inside = "http://127.0.0.2:PORT/", tries = [];
  const quietly = (make) => { try { return Promise.resolve(make()).catch(() => {}) } catch { return Promise.resolve() } };
  document.getElementById("form").submit();
  for (const url of [inside, "http://[::1]:PORT/", "http://rebound.test:PORT/", "https://inside.test:PORT/", "/to-inside"])
    tries.push(quietly(() => fetch(url, {mode: "no-cors"})));
  tries.push(quietly(() => fetch("http://inside.test:PORT/post", {method: "POST", mode: "no-cors", body: "x"})));
  tries.push(new Promise((done) => { const xhr = new XMLHttpRequest(); xhr.onloadend = done; xhr.open("GET", inside); xhr.send() }));
  for (const scheme of ["ws", "wss"])
    tries.push(new Promise((done) => { const socket = new WebSocket(`${scheme}://127.0.0.2:PORT/`); socket.onclose = done }));
  tries.push(new Promise((done) => { const events = new EventSource(inside); events.onerror = () => { events.close(); done() } }));
  const work = `try { importScripts("${inside}worker") } catch {} fetch("${inside}in-worker").catch(() => {}).then(() => postMessage(1))`;
  tries.push(new Promise((done) => {
    const worker = new Worker(URL.createObjectURL(new Blob([work]))); worker.onmessage = worker.onerror = done }));
  navigator.sendBeacon("http://inside.test:PORT/beacon", "x");
  window.open("http://inside.test:PORT/window");
  for (const url of ["file:///etc/passwd", "ftp://127.0.0.2:PORT/", "chrome://version"]) {
    const frame = document.createElement("iframe"); frame.src = url; document.body.append(frame) }
  tries.push(quietly(() => new Promise((done) => {
    const peer = new RTCPeerConnection({iceServers: ["127.0.0.1", "127.0.0.2", "[::1]"].flatMap((host) => [
      {urls: `stun:${host}:PORT`}, {urls: `turn:${host}:PORT?transport=udp`, username: "a", credential: "b"},
      {urls: `turn:${host}:PORT?transport=tcp`, username: "a", credential: "b"}])});
    peer.createDataChannel("x");
    peer.onicecandidate = (event) => { if (!event.candidate) done() };
    peer.createOffer().then((offer) => peer.setLocalDescription(offer));
    setTimeout(done, 1500) })));
  tries.push(quietly(() => Promise.race([new WebTransport("https://127.0.0.2:PORT/").ready, new Promise((done) => setTimeout(done, 1000))])));
  Promise.all(tries).then(() => { const end = document.createElement("b"); end.id = "tried"; end.textContent = tries.length; document.body.append(end) });
</script>
"""


async def test_no_way_leads_to_a_private_address(rendered):
    async with Trap() as trap:
        inside = f"http://127.0.0.2:{trap.port}/"
        rendered.site.routes |= {
            "/to-inside": SiteResponse(status=302, headers={"Location": f"{inside}redirect"}),
            "/frame": f'<meta http-equiv=refresh content="0; url={inside}refresh"><img src={inside}in-frame>',
        }
        page = await rendered.page(
            WAYS.replace("PORT", str(trap.port)), rendering=Rendering(wait_for="#tried", timeout=60, block=())
        )
        assert b'<b id="tried">13</b>' in page.body
        assert b"root:" not in page.body
        assert trap.visits == []
        assert "/to-inside" in rendered.site.visits.paths, "what is permitted was reached"


async def test_a_document_that_a_page_loads_is_asked_from_the_frontier_only(rendered):
    async with Trap() as trap:
        inside = f"http://127.0.0.2:{trap.port}/"
        for body in (f"<script>location = '{inside}'</script>", f'<meta http-equiv=refresh content="0; url={inside}">'):
            page = await rendered.page(body, rendering=Rendering(timeout=60, wait_for="networkidle"))
            assert (page.status, page.headers["location"]) == (302, inside)
        assert trap.visits == []


async def test_a_page_may_use_the_hosts_that_the_guard_permits(rendered):
    """Over plain HTTP one connection carries several requests, with bodies too."""
    rendered.site.routes["/api"] = SiteResponse("yes", headers={"Access-Control-Allow-Origin": "*"})
    body = """<body><script>
      (async () => {
        for (let i = 0; i < 3; i++) document.body.append(await (await fetch("/api", {method: "POST", body: "x".repeat(70000)})).text());
        document.body.append(await (await fetch("/api?last")).text());
        document.body.innerHTML += "<b id=end></b>";
      })()
    </script>"""
    page = await rendered.page(body, rendering=Rendering(wait_for="#end", timeout=60))
    assert b"yesyesyesyes" in page.body
    assert [len(visit.body) for visit in rendered.site.visits.to(path="/api")] == [70000, 70000, 70000, 0]
    assert rendered.site.visits[-1].headers.keys().isdisjoint({"proxy-connection", "proxy-authorization"})


# ── the proxy alone ──


@pytest_asyncio.fixture(loop_scope="module")
async def proxy():
    guard = Guard(resolver=Names(), forbid=lambda found: None if str(found) == "127.0.0.1" else "private")
    proxy = GuardProxy(GuardDial(guard))
    proxy.begin(10**6, list)
    port = int((await proxy.start()).rpartition(":")[2])

    async def ask(text):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text.replace("\n", "\r\n").encode())
        reply = await reader.read(12)
        writer.close()
        return reply.decode()

    ask.proxy = proxy
    yield ask
    await proxy.close()
    await guard.close()


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("CONNECT inside.test:443", "403"),
        ("CONNECT 127.0.0.2:443", "403"),
        ("CONNECT [::1]:443", "403"),
        ("CONNECT 169.254.169.254:80", "403"),
        ("CONNECT site.test:25", "403"),
        ("CONNECT rebound.test:1", "403"),
        ("CONNECT site.test:3", "502"),
        ("CONNECT user@site.test:443", "502"),
        ("CONNECT site.test", "502"),
        ("GET http://inside.test/", "403"),
        ("GET https://site.test/", "403"),
        ("GET ftp://site.test/", "502"),
        ("GET file:///etc/passwd", "502"),
        ("GET /etc/passwd", "502"),
        ("nonsense", ""),
    ],
)
async def test_the_proxy_connects_only_where_the_guard_permits(proxy, asked, status):
    reply = await proxy(f"{asked} HTTP/1.1\n\n")
    assert reply[9:12] == status


async def test_a_connection_of_the_proxy_stays_with_its_host(proxy, rendered):
    """A second request for another host is not sent to the first one."""
    rendered.site.routes["/a"] = "a"
    port = rendered.site.port
    first = f"GET http://site.test:{port}/a HTTP/1.1\nHost: site.test\n\n"
    assert (await proxy(first + "GET http://inside.test/b HTTP/1.1\n\n"))[9:12] in ("200", "")
    assert "/b" not in rendered.site.visits.paths
