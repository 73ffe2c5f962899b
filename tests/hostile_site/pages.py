"""A hostile web site on loopback: pages that are endless, slow, inconsistent or cut off, and such robots.txt files.

Serve it with ``python -m silkline.testing.site tests.hostile_site.pages:hostile_pages``.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
from collections.abc import Awaitable, Callable

from silkline.testing.site.responses import Fixed, Raw, Route, SiteResponse, Wire, healing, redirect
from silkline.testing.site.visits import Visit
from tests.hostile_site.bombs import bomb, zstd_with_window
from tests.hostile_site.costly import costly_pages

HOSTILE_SITE = f"{__name__}:hostile_pages"
"""What `SiteProcess` serves."""
CHUNK = bytes(64 * 1024)
METADATA = "http://169.254.169.254/latest/meta-data/"
NOTHING = b"\0\0\0\xff\xff"
"""A block of deflate that holds no bytes: packed, it never ends; unpacked, it never begins."""
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"

Play = Callable[[Wire, Visit], Awaitable[None]]


def hostile_pages() -> dict[str, Route]:
    """Return a new set of all hostile pages by path. Tests may merge them with their own routes.

    ``/`` links to all of them. The names say what each does; the tests in ``tests/fetch`` say what must happen.
    """
    pages = _giants() | _slow_ones() | _heads() | _packed() | _broken_off() | _elsewhere() | _odd_words() | _traps()
    pages |= _nested_codings() | _charsets() | _busy_work()
    pages |= costly_pages()
    links = "".join(f'<li><a href="{path.replace("*", "0")}">{path}</a></li>' for path in pages)
    return {"/": f"<ul>{links}</ul>", **pages}


def pages_with_costly_robots() -> dict[str, Route]:
    """Return the hostile pages with a robots.txt that is costly to match."""
    return {**hostile_pages(), "/robots.txt": hostile_robots()["needles"]}


def hostile_robots() -> dict[str, Route]:
    """Hostile robots.txt files by name, each for ``LocalSite(robots=…)``."""
    text = {"Content-Type": "text/plain"}
    wild = "User-agent: *\nDisallow: /" + "*a" * 2_000 + "$\n"
    needles = "".join(
        f"Disallow: /*{'a' * (200 + number // 16)}b{'a' * (number % 16 + 1)}\n" for number in range(1_800)
    )
    return {
        "giant": Raw(_endless(b"Content-Type: text/plain\r\n", b"Disallow: /x\n" * 4096)),
        "million-rules": lambda _: SiteResponse("User-agent: *\n" + _numbered("Disallow: /%d\n"), headers=text),
        "wildcards": SiteResponse(wild, headers=text),
        "needles": SiteResponse("User-agent: *\n" + needles, headers=text),
        "crawl-delay": SiteResponse("User-agent: *\nCrawl-delay: 1000000000\n", headers=text),
        "bom": SiteResponse("\ufeffUser-agent: *\r\nDisallow: /private\r\n", headers=text),
        "binary": SiteResponse(bytes(range(256)) * 64, headers=text),
        "html": SiteResponse("<!doctype html><h1>Not found</h1>"),
        "broken": 503,
        "loop": redirect("/robots.txt"),
        "silent": Raw(_say_nothing),
    }


# ── kinds of pages ──


def _giants() -> dict[str, Route]:
    return {
        "/giant": Raw(_endless()),
        "/giant-declared": Raw(_endless(b"Content-Length: 10737418240\r\n")),
        "/giant-chunked": Raw(_endless(b"Transfer-Encoding: chunked\r\n", b"10000\r\n" + CHUNK + b"\r\n")),
        "/tiny-chunks": Raw(_endless(b"Transfer-Encoding: chunked\r\n", b"1\r\nx\r\n" * 4096)),
        "/chunk-extensions": Raw(_endless(b"Transfer-Encoding: chunked\r\n", b"1;" + b"a" * 65536)),
        "/million-links": lambda _: _numbered("<a href=/l/%d>"),
    }


def _numbered(text: str) -> str:
    return "".join([text % number for number in range(1_000_000)])


def _slow_ones() -> dict[str, Route]:
    return {
        "/slow-loris": Raw(_drip(HTML + b"Content-Length: 1000000\r\n\r\n", b"x")),
        "/slow-chunks": Raw(_drip(HTML + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n")),
        "/slow-headers": Raw(_drip(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n")),
        "/silent": Raw(_say_nothing),
        "/silent-body": Raw(_drip(HTML + b"Content-Length: 10\r\n\r\nhalf", b"")),
    }


def _heads() -> dict[str, Route]:
    return {
        "/endless-headers": Raw(_forever(b"HTTP/1.1 200 OK\r\n", b"X-Filler: " + b"y" * 1000 + b"\r\n")),
        "/endless-header": Raw(_forever(b"HTTP/1.1 200 OK\r\nX-Filler: ", b"y" * 65536)),
        "/endless-status": Raw(_forever(b"HTTP/1.1 200 ", b"K" * 65536)),
        "/early-hints": Raw(_forever(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" * 500)),
        "/huge-header": SiteResponse("huge", headers={"X-Huge": "y" * 2**20}),
        "/many-headers": SiteResponse("many", headers=[(f"X-{number}", "y") for number in range(20_000)]),
        "/cookie-flood": SiteResponse("crumbs", headers=[("Set-Cookie", f"c{number}=v") for number in range(20_000)]),
        "/some-cookies": SiteResponse("crumbs", headers=[("Set-Cookie", f"c{number}=v") for number in range(60)]),
    }


def _packed() -> dict[str, Route]:
    def packed(coding: str, kind: str | None = None) -> Route:
        return lambda _: SiteResponse(
            bomb(kind or coding), headers={"Content-Encoding": coding, "Content-Type": "text/html"}
        )

    twice = gzip.compress(gzip.compress(b"<p>inside</p>"))
    return {
        "/bomb/gzip": packed("gzip"),
        "/bomb/deflate": packed("deflate"),
        "/bomb/raw-deflate": packed("deflate", "raw-deflate"),
        "/bomb/br": packed("br"),
        "/bomb/zstd": packed("zstd"),
        "/bomb/gzip-gzip": packed("gzip, gzip", "gzip-gzip"),
        "/bomb/one-layer": packed("gzip", "gzip-gzip"),
        "/bomb/many-layers": SiteResponse(_wrapped(50), headers={"Content-Encoding": ", ".join(["gzip"] * 50)}),
        "/bomb/nothing": Raw(_endless(b"Content-Encoding: deflate\r\n", NOTHING * 8192, b"\x78\x9c")),
        "/bomb/window": SiteResponse(zstd_with_window(31), headers={"Content-Encoding": "zstd"}),
        "/packed-twice": SiteResponse(twice, headers={"Content-Encoding": "gzip, gzip"}),
        "/not-gzip": SiteResponse("<p>plain</p>", headers={"Content-Encoding": "gzip"}),
        "/half-gzip": SiteResponse(gzip.compress(b"<p>whole</p>" * 100)[:-20], headers={"Content-Encoding": "gzip"}),
        "/unknown-coding": SiteResponse("<p>plain</p>", headers={"Content-Encoding": "x-mystery"}),
    }


def _nested_codings() -> dict[str, Route]:
    """Bodies whose work happens between two codings, or after the end of one."""

    def nested(codings: str, kind: str) -> Route:
        return lambda _: SiteResponse(bomb(kind), headers={"Content-Encoding": codings, "Content-Type": "text/html"})

    empty = gzip.compress(b"")
    return {
        "/nested/gzip-zeros-br": nested("gzip, br", "gzip-zeros-br"),
        "/nested/gzip-members-br": nested("gzip, br", "gzip-members-br"),
        "/nested/gzip-members-gzip": nested("gzip, gzip", "gzip-members-gzip"),
        "/nested/zstd-frames-br": nested("zstd, br", "zstd-frames-br"),
        "/nested/gzip-members": Raw(_endless(b"Content-Encoding: gzip\r\n", empty * 3_000)),
        "/nested/gzip-then-zeros": Raw(_endless(b"Content-Encoding: gzip\r\n", CHUNK, gzip.compress(b"<p>inside</p>"))),
    }


def _charsets() -> dict[str, Route]:
    """Pages that take long to become text."""

    def declared(label: str, body: bytes = b"a" * 500_000) -> SiteResponse:
        return SiteResponse(body, headers={"Content-Type": f"text/html; charset={label}"})

    metas = b"<meta" * 100 + b" charset=" + b" " * 3_500 + b";"
    return {
        "/charset/punycode": declared("punycode"),
        "/charset/idna": declared("idna"),
        "/charset/long": declared("x" * 60_000, b"<p>inside</p>"),
        "/charset/spaces": declared(" " * 60_000 + ";", b"<p>inside</p>"),
        "/charset/meta-spaces": SiteResponse(metas, headers={"Content-Type": "text/html"}),
        "/charset/undefined-bytes": declared("iso-8859-6", b"\xff" * 500_000),
    }


def _busy_work() -> dict[str, Route]:
    """Answers of many tiny parts, each of which costs the reader time."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    chunked = HTML + b"Transfer-Encoding: chunked\r\n\r\n"
    return {
        "/busy/early-hints": Raw(_forever(b"", early * 1_000)),
        "/busy/some-early-hints": Raw(_send(early * 3 + HTML + b"Content-Length: 5\r\n\r\nfinal")),
        "/busy/continue": Raw(_forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)),
        "/busy/small-chunks": Raw(_forever(chunked, b"8\r\nabcdefgh\r\n" * 1_000)),
    }


def _wrapped(times: int) -> bytes:
    body = b"<p>inside</p>"
    for _ in range(times):
        body = gzip.compress(body)
    return body


def _broken_off() -> dict[str, Route]:
    return {
        "/too-short": Raw(_send(HTML + b"Content-Length: 1000\r\n\r\nshort")),
        "/too-long": Raw(_send(HTML + b"Content-Length: 5\r\n\r\nshort" + b"x" * 10_000)),
        "/two-lengths": Raw(_send(HTML + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\nshort..")),
        "/negative-length": Raw(_send(HTML + b"Content-Length: -5\r\n\r\nshort")),
        "/half-chunked": Raw(_send(HTML + b"Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n")),
        "/bad-chunks": Raw(_send(HTML + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nshort\r\n0\r\n\r\n")),
        "/reset": Raw(_send(HTML + b"Content-Length: 1000\r\n\r\nshort", reset=True)),
        "/reset-first": Raw(_send(b"", reset=True)),
        "/empty": Raw(_send(b"")),
        "/half-head": Raw(_send(b"HTTP/1.1 200 OK\r\nContent-Ty")),
        "/garbage": Raw(_send(bytes(range(255, -1, -1)) * 16)),
        "/ssh": Raw(_send(b"SSH-2.0-OpenSSH_9.2\r\n")),
        "/http-0.9": Raw(_send(b"<p>no head at all</p>")),
    }


def _elsewhere() -> dict[str, Route]:
    def chain(visit: Visit) -> Fixed:
        left = visit.path.rpartition("/")[2]
        return "arrived" if not left.isdecimal() or left == "0" else redirect(f"/redirect/{int(left) - 1}")

    def across(visit: Visit) -> Fixed:
        return redirect(f"http://127.0.0.2:{visit.host.rpartition(':')[2]}/")

    return {
        "/redirect/*": chain,
        "/redirect/loop": redirect("/redirect/loop"),
        "/redirect/ping": redirect("/redirect/pong"),
        "/redirect/pong": redirect("/redirect/ping"),
        "/redirect/across": across,
        "/redirect/file": redirect("file:///etc/passwd"),
        "/redirect/ftp": redirect("ftp://127.0.0.1/"),
        "/redirect/data": redirect("data:text/html,<p>hello"),
        "/redirect/script": redirect("javascript:alert(1)"),
        "/redirect/private": redirect(METADATA),
        "/redirect/nowhere": SiteResponse(status=302),
        "/redirect/nonsense": redirect("http://[::1"),
        "/redirect/long": redirect("/" + "x" * 10_000),
    }


def _odd_words() -> dict[str, Route]:
    def busy(after: str, status: int = 429) -> SiteResponse:
        return SiteResponse("busy", status=status, headers={"Retry-After": after})

    def status(visit: Visit) -> Fixed:
        number = visit.path.rpartition("/")[2]
        return int(number) if number.isdecimal() and 200 <= int(number) <= 599 else 404

    return {
        "/status/*": status,
        "/retry-after/1e18": busy("1000000000000000000"),
        "/retry-after/negative": busy("-5"),
        "/retry-after/words": busy("soon"),
        "/retry-after/past": busy("Thu, 01 Jan 1970 00:00:00 GMT"),
        "/retry-after/far": busy("Fri, 31 Dec 9999 23:59:59 GMT", 503),
        "/retry-after/1": healing(busy("1"), "well again"),
        "/heals": healing(500, "well again", 2),
        "/policy": SiteResponse("hm", headers={"Referrer-Policy": "os.system", "X-Handler": "__import__('os')"}),
        "/bad-charset": SiteResponse(b"\xff\xfe\x00caf\xe9", headers={"Content-Type": "text/html; charset=os.system"}),
    }


def _traps() -> dict[str, Route]:
    def calendar(visit: Visit) -> Fixed:
        day = visit.path.rpartition("/")[2]
        return f'<a href="/calendar/{int(day) + 1 if day.isdecimal() else 1}">tomorrow</a>'

    sessions = itertools.count()
    return {
        "/calendar/*": calendar,
        "/deep/*": '<a href="again/">deeper</a>',
        "/session": lambda _: f'<a href="/session?sid={next(sessions)}">again</a>',
    }


# ── how they send ──


def _endless(header: bytes = b"", chunk: bytes = CHUNK, start: bytes = b"") -> Play:
    return _forever(HTML + header + b"\r\n" + start, chunk)


def _forever(first: bytes, again: bytes) -> Play:
    async def play(wire: Wire, _visit: Visit) -> None:
        await wire.send(first)
        while True:
            await wire.send(again)

    return play


def _drip(first: bytes, drop: bytes, every: float = 1.0) -> Play:
    async def play(wire: Wire, _visit: Visit) -> None:
        await wire.send(first)
        while True:
            await asyncio.sleep(every)
            await wire.send(drop)

    return play


def _send(data: bytes, *, reset: bool = False) -> Play:
    async def play(wire: Wire, _visit: Visit) -> None:
        await wire.send(data)
        if reset:
            await asyncio.sleep(0.05)  # let it arrive: a reset may overtake it
            wire.reset()

    return play


async def _say_nothing(_wire: Wire, _visit: Visit) -> None:
    await asyncio.Event().wait()
