"""The site that the projects of `test_migration` crawl: listings, accounts, an echo and trouble."""

from __future__ import annotations

import json
from collections import Counter

from silkline.testing.site import SiteResponse, redirect

LISTINGS, PER_LISTING = 3, 8


def listing(visit):
    number = int(visit.path.rpartition("/")[2])
    items = "".join(
        f"<a class=product href=/product/{number * PER_LISTING + n}?from={number}>p</a>" for n in range(PER_LISTING)
    )
    more = f"<a class=next href=/listing/{number + 1}>next</a>" if number + 1 < LISTINGS else ""
    return f"<title>Listing {number}</title>{items}{more}<a class=back href=/listing/0>first</a>"


def product(visit):
    number = visit.path.partition("?")[0].rpartition("/")[2]
    detail = f"<a class=detail href=/detail/{number}>more</a><a class=file href=/file/{number}.txt>file</a>"
    return f"<title>Product {number}</title><h1>Product {number}</h1><p class=price>{int(number) * 3}</p>{detail}"


def detail(visit):
    return f"<title>Detail</title><p class=stock>{int(visit.path.rpartition('/')[2]) % 5}</p>"


def echo(visit):
    kept = {
        name: visit.headers[name] for name in ("cookie", "x-token", "content-type", "referer") if name in visit.headers
    }
    fact = {"method": visit.method, "path": visit.path, "body": visit.body.decode("latin-1"), "headers": kept}
    fact["headers"].pop("referer", None)
    return SiteResponse(json.dumps(fact), headers={"Content-Type": "application/json"})


def login(visit):
    if visit.method == "POST":
        name = visit.body.decode().partition("user=")[2].partition("&")[0]
        return SiteResponse(
            status=302, headers=[("Location", f"/account?{name}"), ("Set-Cookie", f"session={name}; Path=/")]
        )
    return "<form method=post action=/login><input name=token value=7><input name=user></form>"


def account(visit):
    return f"<title>Account of {visit.headers.get('cookie', 'nobody')}</title><a href=/account/orders>orders</a>"


def routes():
    """New routes: what they count begins at zero."""
    visits = Counter()

    def banned(visit):
        visits[visit.path] += 1
        return (
            "<title>banned</title>" if visits[visit.path] < 3 else f"<title>let in after {visits[visit.path]}</title>"
        )

    def busy(visit):
        visits[visit.path] += 1
        return 503 if visits[visit.path] < 2 else "<title>no longer busy</title>"

    def counted(visit):
        visits[visit.path] += 1
        return f"<title>visit {visits[visit.path]}</title>"

    return {
        "/": "<title>Home</title><a class=next href=/listing/0>listings</a>",
        "/listing/*": listing,
        "/product/*": product,
        "/detail/*": detail,
        "/file/*": lambda visit: visit.path.encode(),
        "/echo": echo,
        "/login": login,
        "/account": account,
        "/account/orders": account,
        "/moved": redirect("/echo?moved=1"),
        "/broken": 500,
        "/banned/*": banned,
        "/busy/*": busy,
        "/counted": counted,
    }
