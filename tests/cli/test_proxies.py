"""A crawl through a proxy on the command line. The password of the proxy is shown and stored nowhere."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.request

import psutil
import pytest
import redis

from silkline.core.proxy_health import ProxyCounts, ProxyReport
from tests.proxies import ProxyServer
from tests.servers import free_port

USER, SECRET = "us3r-n4me", "s3cr3t-w0rd"


@pytest.fixture
def proxy():
    """A proxy in a thread, which wants a login. The test may stop it and start it again."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = ProxyServer(login=(USER, SECRET))

    class Control:
        def start(self):
            asyncio.run_coroutine_threadsafe(server.start(), loop).result()

        def stop(self):
            asyncio.run_coroutine_threadsafe(server.die(), loop).result()

    control = Control()
    control.server = server
    control.start()
    yield control
    control.stop()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def stored(server):
    """Everything that a server has stored, as bytes."""
    with redis.Redis(unix_socket_path=str(server.socket)) as client:
        return b"".join(b"%s %s" % (key, client.dump(key) or b"") for key in client.scan_iter())


def read(url):
    with urllib.request.urlopen(url) as response:
        return response.read().decode()


def arguments_of_workers(parent):
    """The arguments of the processes that a run has started."""
    workers = psutil.Process(parent).children(recursive=True)
    assert workers
    return [" ".join(worker.cmdline()) for worker in workers]


@pytest.mark.parametrize("given", ["option", "list", "file"])
def test_a_run_fetches_through_a_proxy(given, silkline, site, write, valkey, proxy, workplace):
    server = proxy.server
    where = site({"/": "<h1>Front</h1>"})
    file = workplace / write(where)
    if given == "file":
        file.write_text(file.read_text().replace("allow_private=True", f"allow_private=True, proxy={server.url!r}"))
    (workplace / "proxies.txt").write_text(f"# mine\n{server.url}\n")
    options = ["--proxy", server.url] if given == "option" else []
    variables = {"SILKLINE_PROXY": "file:proxies.txt"} if given == "list" else {}
    done = silkline("run", file, "--redis", valkey.url, "--json", *options, **variables)
    assert done.code == 0, done.err
    assert f"127.0.0.1:{where.port}" in server.targets
    assert len(where.visits) == len(server.targets)  # robots.txt too
    assert SECRET not in done.out + done.err


def test_the_proxies_of_other_programs_are_not_used(silkline, site, write, valkey):
    where = site({"/": "<h1>Front</h1>"})
    dead = "http://127.0.0.1:9"
    done = silkline("run", write(where), "--redis", valkey.url, HTTP_PROXY=dead, http_proxy=dead, ALL_PROXY=dead)
    assert done.code == 0, done.err


def test_a_page_is_fetched_through_a_proxy_to_try_it(here, site, proxy):
    where = site({"/": "<h1>Front</h1>"})
    command = ("fetch", where.url, "--allow-private", "--proxy", proxy.server.url)
    done = here(*command)
    assert (done.code, f"127.0.0.1:{where.port}" in proxy.server.targets) == (0, True), done
    proxy.stop()
    done = here(*command)
    assert done.code != 0
    assert f"the proxy http://{proxy.server.place} failed: no connection: Connection refused" in " ".join(
        done.err.split()
    )
    assert SECRET not in done.out + done.err


def test_a_page_is_tried_by_a_name_that_only_the_proxy_knows(here, site, proxy):
    where = site({"/": "x"})
    done = here("fetch", f"http://shop.test:{where.port}/", "--allow-private", "--proxy", proxy.server.url)
    assert done.code == 0, done.err
    assert "guard       permitted by name; the proxy looks up the addresses" in done.out
    done = here("fetch", f"http://10.0.0.1:{where.port}/", "--proxy", proxy.server.url)
    assert (done.code, "10.0.0.1 is a private address" in done.err) == (1, True)


def test_a_wrong_proxy_is_reported_without_its_password(silkline, write, valkey):
    done = silkline(
        "run", write(["http://127.0.0.1/"]), "--proxy", f"ftp://{USER}:{SECRET}@proxy.example", "--redis", valkey.url
    )
    assert done.code == 2
    assert "'ftp://***@proxy.example' is not the URL of a proxy" in " ".join(done.err.split())
    assert SECRET not in done.err


def test_the_password_of_a_proxy_that_fails_is_nowhere(running, operate, site, write, valkey, proxy, crawl):
    """In no log, command, page, metric, process list or key, while the proxy is down and after the end."""
    server = proxy.server
    where = site({"/": "<h1>Front</h1>", "/gone": 404})
    proxy.stop()
    file = write([where.url, where.at("/gone")])
    run = running(
        *("run", file, "--redis", valkey.url, "--proxy", server.url, "--metrics", port := free_port()),
        *("--log-level", "debug", "--workers", 2),
    )
    run.wait_for("does not work")
    while 'kind="proxy"' not in (metrics := read(f"http://127.0.0.1:{port}/metrics")):  # of the last reports of workers
        time.sleep(0.1)
    while "does not work" not in operate("workers", "ls", crawl).out:  # with the next report of a worker
        time.sleep(0.1)
    dashboard = running("dashboard", "--port", page := free_port(), "--redis", valkey.url)
    dashboard.wait_for(f":{page}")
    shown = [
        metrics,
        *(read(f"http://127.0.0.1:{page}{path}") for path in ("/", "/workers", "/hosts", "/crawls", "/proxies")),
    ]
    shown += arguments_of_workers(run.process.pid)
    for command in (
        ("proxy", "ls", crawl),
        ("proxy", "ls", crawl, "--json"),
        ("status", crawl),
        ("status", crawl, "--json"),
        ("status",),
        ("workers", "ls", crawl),
        ("workers", "ls", crawl, "--json"),
        ("explain", crawl, where.url),
        ("crawl", "ls"),
        ("crawl", "audit", crawl),
        ("host", "ls", crawl),
        ("url", "ls", crawl),
    ):
        done = operate(*command)
        shown += [done.out, done.err]
    assert f"pages wait, because the proxy http://{server.place} does not work" in " ".join(
        operate("status", crawl).out.split()
    )
    while "resting" not in (listed := operate("proxy", "ls", crawl).out):  # unless it is checked just now
        time.sleep(0.1)
    assert f"http://{server.place} " in listed
    assert f"http://{server.place}</td>" in read(f"http://127.0.0.1:{page}/proxies?crawl={crawl}")
    assert not [secret for secret in (USER, SECRET) if secret.encode() in stored(valkey)]
    proxy.start()
    assert run.end() in (0, 5)
    done = operate("dead", "ls", crawl)
    assert "404" in done.out
    shown += [done.out, run.out, run.err]
    [known] = operate("proxy", "ls", crawl, "--json").json
    assert (known["proxy"], known["state"]) == (f"http://{server.place}", "ready")
    assert not [text for text in shown if SECRET in text or USER in text]
    assert SECRET.encode() not in stored(valkey)


def test_proxies_are_tested_without_a_crawl(here, site, proxy, workplace, monkeypatch):
    """With a request for a host that cannot exist, or with a page."""
    where, server = site({"/": "<h1>Front</h1>", "/gone": 404}), proxy.server
    dead = f"127.0.0.1:9:{USER}:{SECRET}"
    (workplace / "proxies.txt").write_text(f"# mine\n{server.url}\n{dead}\n")
    done = here("proxy", "test", server.url)
    assert (done.code, done.err) == (0, "1 of 1 proxy works\n")
    assert done.out.split()[:7] == ["proxy", "works", "time", "why", "not", f"http://{server.place}", "yes"]
    assert server.checks == 2
    done = here("proxy", "test", "file:proxies.txt", "--json")
    assert done.code == 1
    good, bad = done.json
    assert (good["proxy"], good["works"], good["http"], good["https"]) == (f"http://{server.place}", True, True, True)
    assert (bad["works"], bad["why"]) == (False, "no connection: Connection refused")
    monkeypatch.setenv("SILKLINE_PROXY", server.url)
    done = here("proxy", "test", "--url", where.at("/gone"), "--allow-private")
    assert (done.code, "404" in done.out) == (0, True), done
    assert server.targets == [f"127.0.0.1:{where.port}"]
    done = here("proxy", "test", server.url, "--url", where.url)
    assert (done.code, "is a loopback address" in done.out) == (1, True)
    server.login = (USER, "another")
    done = here(
        "proxy",
        "test",
        f"http://{USER}:{SECRET}@{server.place}",
        server.url.replace("another", SECRET),
        "--timeout",
        "5s",
    )
    assert (done.code, "it wants another user or password" in done.out) == (1, True)
    assert not [secret for secret in (USER, SECRET) if secret in done.out + done.err]


def test_wrong_tests_of_proxies_are_refused(here, write):
    for arguments, told in (
        ((), "there are no proxies to test"),
        (("--file", write(["http://127.0.0.1/"])), "has none"),
        ((f"ftp://{USER}:{SECRET}@proxy.example",), "'ftp://***@proxy.example' is not the URL of a proxy"),
        (("file:missing.txt",), "cannot be read: No such file"),
        (("http://a.example", "--url", "ftp://b.example/"), "cannot be fetched"),
        (("http://a.example", "--timeout", "soon"), "must be a time"),
        (("http://a.example", "--timeout", "0"), "--timeout must be more than 0"),
    ):
        done = here("proxy", "test", *arguments)
        assert (done.code, told in " ".join(done.err.split())) == (2, True), done
        assert SECRET not in done.err


def test_the_proxies_of_a_crawl_are_listed_worst_first(operate, frontier, crawl):
    books = frontier()
    assert operate("proxy", "ls", crawl).out.startswith(f"{crawl} has fetched nothing through proxies")
    reports = [
        ProxyReport("http://good.example:80", "worked", counts=ProxyCounts(98, 2, 5, 9800)),
        ProxyReport("http://bad.example:80", "failed", "it \x1b[31m[red]closes"),
        ProxyReport("http://new.example:80"),
    ]
    books.internal.share_proxies("w", 0, (60.0, 60.0), reports)
    out = operate("proxy", "ls", crawl).out
    assert "\x1b[31m" not in out
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "http://bad.example:80", "http://good.example:80", "http://new.example:80",
    ]  # fmt: skip
    for words in ("resting", "98%", "100 ms", "[red]closes"):
        assert words in out
    rows = operate("proxy", "ls", crawl, "--json").json
    assert [(row["proxy"], row["state"], row["success"]) for row in rows] == [
        ("http://bad.example:80", "resting", None),
        ("http://good.example:80", "ready", 0.98),
        ("http://new.example:80", "unknown", None),
    ]
    assert [row["proxy"] for row in operate("proxy", "ls", crawl, "--state", "ready", "--json").json] == [
        "http://good.example:80"
    ]
    assert operate("proxy", "ls", crawl, "--hosts").out == f"No host of {crawl} blocks a tier of proxies.\n"
    books.internal.share_proxies("w", 0, (60.0, 60.0), [ProxyReport("shop.example", "tier", "1")])
    assert "shop.example" in operate("proxy", "ls", crawl, "--hosts").out
    [moved] = operate("proxy", "ls", crawl, "--hosts", "--json").json
    assert (moved["host"], moved["tier"], 3000 < moved["lasts_for"] <= 3600) == ("shop.example", 2, True)
    shown = operate("proxy", "ls", crawl, "--limit", "1")
    assert ("2 more" in shown.err, shown.out.count("http://")) == (True, 1)
    assert operate("proxy", "ls", crawl, "--limit", "0").code == 2
    assert operate("proxy", "ls", f"{crawl}-none").code == 2
