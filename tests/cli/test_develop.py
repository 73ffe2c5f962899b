"""``silkline fetch``, ``try`` and ``shell``, and the HTTP cache: one page at a time, without a server."""

from __future__ import annotations

import json
import logging
import sys
from textwrap import dedent

import pytest

from silkline.testing import SiteResponse, redirect
from tests.cli.sites import chain, lines_of
from tests.cli.terminal import Terminal

SHOP = """
@crawl.handler
def listing(page):
    yield {"title": page.text_of("h1")}
    yield page.follow(page.css("a"), product, meta={"category": "lamps"})


@crawl.handler
async def product(page):
    print("a handler prints")
    if page.url.endswith("/sold"):
        raise Drop("sold out")
    if page.url.endswith("/later"):
        raise RetryLater(60, "not ready")
    lock = (await crawl.frontier()).lock("prices")
    async with lock:
        yield {"price": page.text_of(".price"), **page.meta}
"""
ROUTES = {
    "/": "<h1>Shop</h1><a href=/lamp>lamp</a><a href=/x.pdf>file</a><a href=https://other.example/>other</a>",
    "/lamp": "<p class=price>9 €</p>",
    "/old": redirect("/lamp"),
    "/away": redirect("http://other.example/"),
    "/loop": redirect("/loop"),
    "/private": "secret",
    "/gone": 410,
    "/sold": "x",
    "/later": "x",
    "/evil": SiteResponse("x", headers={"X-Evil": "a\x9b31mb"}),
}
ROBOTS = "User-agent: *\nDisallow: /private\nCrawl-delay: 2"


@pytest.fixture
def shop(site, write):
    """A site and a file for it; workers of the file may crawl loopback and obey robots.txt."""
    here = site(ROUTES, robots=ROBOTS)
    write(here, code="\nfrom silkline import RetryLater\n" + SHOP, obey_robots=True)
    return here


@pytest.fixture
def dev(here, monkeypatch):
    """A command in this process, without what it changes there: the log, and where modules are found."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [*root.handlers])
    monkeypatch.setattr(sys, "path", [*sys.path])
    level = root.level
    yield here
    logging.captureWarnings(capture=False)
    root.setLevel(level)
    sys.modules.pop("books", None)


def no_server(workplace):
    return not (workplace / ".silkline").exists()


# ── silkline fetch ──


def test_fetch_shows_every_step(dev, shop, workplace):
    done = dev("fetch", shop.at("/old"), "--allow-private")
    assert done.code == 0
    assert done.out.splitlines()[0] == f"GET {shop.at('/old')}"
    for words in (
        "guard       127.0.0.1 permitted, looked up in 0.0",
        "robots.txt  allowed, Crawl-delay 2 s",
        "response    302, HTTP/1.1, 0 bytes in ",
        "redirects to /lamp",
        f"GET {shop.at('/lamp')}",
        "content-type: text/html",
    ):
        assert words in done.out, words
    assert shop.visits.paths == ["/robots.txt", "/old", "/lamp"]
    assert no_server(workplace)


def test_fetch_as_json(dev, shop):
    done = dev("fetch", shop.at("/old"), "--allow-private", "--json")
    report = done.json
    assert (report["final_url"], report["status"], report["problem"]) == (shop.at("/lamp"), 200, None)
    first, last = report["steps"]
    assert (first["status"], first["robots"], first["crawl_delay"]) == (302, "allowed", 2.0)
    assert (first["guard"], first["addresses"]) == ("permitted", ["127.0.0.1"])
    assert ["content-type", "text/html; charset=utf-8"] in [[name.lower(), value] for name, value in last["headers"]]


def test_fetch_prints_the_body_alone(dev, shop):
    done = dev("fetch", shop.at("/lamp"), "--allow-private", "--body")
    assert (done.out, "GET " in done.err) == ("<p class=price>9 €</p>", True)


@pytest.mark.parametrize(
    ("path", "options", "kind", "words"),
    [
        ("/", [], "forbidden_address", "start with --allow-private"),
        ("/private", ["--allow-private"], "robots", "To fetch it nevertheless: --ignore-robots"),
        ("/loop", ["--allow-private"], "redirect", "a loop of redirects"),
        ("/away", ["--allow-private"], "dns", "no address for other.example"),
        ("/gone", ["--allow-private"], None, "410, HTTP/1.1"),
    ],
)
def test_fetch_says_why_a_worker_gets_no_page(path, options, kind, words, dev, shop):
    done = dev("fetch", shop.at(path), *options)
    assert done.code == 1
    assert words in done.out + done.err
    problem = dev("fetch", shop.at(path), *options, "--json").json["problem"]
    assert (problem and problem["kind"]) == kind
    if kind in ("forbidden_address", "robots"):
        assert path not in shop.visits.paths


def test_what_a_site_sends_cannot_control_the_terminal(dev, shop):
    assert r"a\x9b31mb" in dev("fetch", shop.at("/evil"), "--allow-private").out


def test_robots_txt_may_be_ignored(dev, shop):
    done = dev("fetch", shop.at("/private"), "--allow-private", "--ignore-robots")
    assert (done.code, "robots.txt  ignored" in done.out) == (0, True)
    assert shop.visits.paths == ["/private"]


def test_fetch_uses_the_settings_and_the_middleware_of_a_file(dev, site, write):
    here = site({"/": lambda visit: f"{visit.headers['user-agent']} {visit.headers['x-token']}"})
    code = """
    import msgspec

    @crawl.middleware
    async def signed(request, call_next):
        return await call_next(msgspec.structs.replace(request, headers={"X-Token": "abc"}))

    @crawl.handler
    def page(page):
        return None
    """
    file = write(here, code=code)
    done = dev("fetch", here.url, "--file", file, "--body", "--user-agent", "mine/2")
    assert (done.code, done.out) == (0, "mine/2 abc")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fetch", "ftp://x.example/"], "cannot be fetched"),
        (["fetch", "http://["], "cannot be fetched"),
        (["fetch", "x.example", "--body", "--json"], "use only one of them"),
        (["fetch", "x.example", "--offline"], "--offline needs the directory of the cache: --cache DIR"),
        (["fetch", "x.example", "--cache-expires", "1d"], "--cache-expires needs the directory of the cache"),
        (["fetch", "x.example", "--cache", "c", "--offline"], "there is no cache c to be offline with"),
        (["try", "none.py"], "there is no file none.py"),
        (["try", "books.py", "--handler", "parse"], "'parse' is not a handler of this crawl"),
        (["try", "books.py", "--meta", "[1]"], "--meta must be a JSON object"),
        (["try", "books.py", "--args", "[1]"], "--args must be a JSON object"),
        (["try", "books.py", "--args", '{"category": 1}'], "cannot be called with the arguments 'category'"),
        (["shell", "mailto:me@x.example"], "cannot be fetched"),
    ],
)
def test_wrong_usage_is_explained(arguments, words, dev, shop):
    done = dev(*arguments)
    assert done.code == 2
    assert words in done.err


# ── silkline try ──


def test_try_prints_items_and_links_and_stores_nothing(dev, shop, workplace):
    done = dev("try", "books.py")
    assert done.code == 0
    assert '1 item\n  {"title": "Shop"}\n2 links\n' in done.out
    assert f'  {shop.at("/lamp")} → product {{"category": "lamps"}}' in done.out
    assert "not followed: another site 1" in done.out
    assert shop.visits.paths == ["/robots.txt", "/"]
    assert no_server(workplace)
    assert {path.name for path in workplace.iterdir()} <= {"books.py", "__pycache__"}


def test_try_another_handler_of_another_page_with_metadata(dev, shop, workplace):
    """The handler takes a lock, but no server is started for it."""
    done = dev("try", "books.py", shop.at("/old"), "--handler", "product", "--meta", '{"category": "x"}', "--json")
    assert done.json["items"] == [{"price": "9 €", "category": "x"}]
    assert (done.json["handler"], done.json["links"], done.json["error"]) == ("product", [], None)
    assert [step["status"] for step in done.json["fetch"]["steps"]] == [302, 200]
    assert "a handler prints" in done.err
    assert no_server(workplace)


def test_try_gives_a_handler_its_arguments(dev, shop, workplace):
    code = f"""
    from silkline import Crawl, FetchOptions
    crawl = Crawl("args", start={shop.url!r}, fetching=FetchOptions(allow_private=True))
    @crawl.handler
    def first(page, category="none"):
        yield {{"category": category}}
        yield page.follow("/lamp", first, args={{"category": "lamps"}})
    """
    (workplace / "args.py").write_text(dedent(code))
    done = dev("try", "args.py", "--args", '{"category": "tea"}')
    assert (done.code, '1 item\n  {"category": "tea"}\n' in done.out) == (0, True)
    assert f'{shop.at("/lamp")} → first {{"category": "lamps"}}' in done.out


def test_try_shows_what_a_handler_raises(dev, shop):
    done = dev("try", "books.py", shop.url, "--handler", "product")
    assert done.code == 1
    assert "in product" in done.err
    assert f"error: handler product: ElementNotFound: no element matches '.price' on {shop.url}" in done.err


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/sold", 0, "dropped: sold out"),
        ("/later", 1, "the handler asks to try again later: not ready"),
        ("/gone", 1, "no handler gets this page: status 410"),
        ("/private", 1, "was not fetched: robots: robots.txt does not allow it"),
        ("/away", 1, "redirected out of the crawl's scope (another site)"),
    ],
)
def test_try_says_what_a_worker_would_do_with_the_page(path, code, words, dev, shop):
    done = dev("try", "books.py", shop.at(path), "--handler", "product")
    assert done.code == code
    assert words in done.out + done.err


# ── silkline shell ──


def test_code_is_piped_to_a_shell(silkline, shop, workplace):
    code = f"""
    print(page.text_of("h1"), page.follow(page.one("a")).url)
    lamp = fetch({shop.at("/lamp")!r})
    print(page is lamp, run_handler(product, page).items)
    fetch("ftp://x.example/")
    fetch({shop.at("/private")!r})
    print(page.url)
    """
    done = silkline("shell", shop.url, "--file", "books.py", given=dedent(code), handler_fails=True)
    assert done.code == 0
    lines = [line for line in done.out.splitlines() if line]
    assert lines == [f"Shop {shop.at('/lamp')}", "a handler prints", "True [{'price': '9 €'}]", shop.at("/lamp")]
    assert "'ftp://x.example/' cannot be fetched" in done.err
    assert "FetchError: robots.txt does not allow it" in done.err
    assert no_server(workplace)


def test_a_shell_keeps_cookies_and_sends_forms(silkline, site):
    form = "<form method=post action=/form><input name=q></form>"
    here = site(
        {
            "/": SiteResponse(form, headers={"Set-Cookie": "a=1; Path=/"}),
            "/form": lambda visit: f"{visit.headers['cookie']} {visit.body.decode()}",
        }
    )
    code = "print(fetch(page.form().submit(q='lamp')).text)"
    assert silkline("shell", here.url, "--allow-private", given=code).out.strip() == "a=1 q=lamp"


def test_a_shell_needs_a_page(silkline, shop):
    done = silkline("shell", shop.at("/private"), "--allow-private", given="print(1)")
    assert (done.code, done.out) == (1, "")


@pytest.mark.parametrize("installed", [False, True])
def test_a_shell_on_a_terminal_is_ipython_if_that_is_installed(installed, shop, workplace):
    """A module of that name stands for it: it shows that IPython gets the names."""
    if installed:
        text = "def start_ipython(argv, user_ns):\n    print('IPython has', user_ns['page'].url, argv)\n"
        (workplace / "IPython.py").write_text(text)
    terminal = Terminal("shell", shop.url, "--allow-private", cwd=workplace, PYTHONPATH=str(workplace))
    if installed:
        terminal.wait_for(f"IPython has {shop.url}")
    else:
        terminal.wait_for(">>> ")
        terminal.type(b"page.text_of('h1').upper()\n")
        terminal.wait_for("'SHOP'")
        terminal.type(b"exit()\n")
    assert terminal.end() == 0


# ── the cache ──


def test_a_crawl_is_replayed_offline_without_the_site(silkline, dev, site, write, workplace, valkey):
    here = site(chain(3, **{"/4": SiteResponse("", status=302, headers={"Location": "/1", "Set-Cookie": "a=b"})}))
    here.routes["/"] += "<a href=/4>4</a>"
    file = write(here, obey_robots=True)
    first = silkline("run", file, "-o", "first.jsonl", "--cache", "pages", SILKLINE_REDIS=valkey.url)
    assert first.code == 0, first.err
    visits = len(here.visits)
    here.routes.clear()
    again = ("run", file, "-o", "again.jsonl", "--cache", "pages", "--offline", "--fresh", "--yes")
    again = silkline(*again, SILKLINE_REDIS=valkey.url)
    assert again.code == 0, again.err
    assert "offline, all pages come from the cache" in again.err
    by_path = sorted(lines_of(workplace / "first.jsonl"), key=str)
    assert by_path == sorted(lines_of(workplace / "again.jsonl"), key=str)
    assert len(here.visits) == visits

    (workplace / "books.py").write_text((workplace / "books.py").read_text().replace('"status": page', '"code": page'))
    tried = dev("try", file, here.at("/1"), "--cache", "pages", "--offline", "--json")
    assert tried.json["items"] == [{"path": "1", "code": 200}]
    shown = dev("fetch", here.at("/1"), "--cache", "pages", "--offline")
    assert ", from the cache: stored 20" in shown.out
    assert len(here.visits) == visits


def test_offline_a_page_that_is_not_cached_is_a_dead_letter_at_once(silkline, dev, site, write, workplace, valkey):
    here = site(chain(2))
    file = write(here)
    assert dev("fetch", here.url, "--file", file, "--cache", "pages").code == 0
    done = silkline("run", file, "-o", "x.jsonl", "--cache", "pages", "--offline", "--json", SILKLINE_REDIS=valkey.url)
    assert done.code == 5
    (reason,) = done.json["dead_letters"]
    assert (reason["reason"].partition(":")[0], reason["count"]) == ("not_cached", 2)
    assert json.loads((workplace / "x.jsonl").read_text())["status"] == 200
    assert here.visits.paths == ["/"]


def test_a_damaged_cache_file_is_said_once_and_fetched_again(dev, site, workplace):
    here = site(chain(1))
    fetch = ("fetch", here.url, "--allow-private", "--ignore-robots", "--cache", "pages")
    dev(*fetch)
    (file,) = [path for path in (workplace / "pages").glob("??/*") if path.is_file()]
    file.write_bytes(b"junk")
    done = dev(*fetch)
    assert (done.code, done.err.count("is damaged")) == (0, 1)
    assert dev(*fetch).err == ""
    assert here.visits.paths == ["/", "/"]
