"""``silkline run``: real processes, a real site, a real server."""

from __future__ import annotations

import json
import re
import signal
import socket
import sqlite3
import threading

import psutil
import pytest
from pyarrow import parquet

from silkline import SyncFrontier
from silkline.cli.options.operator import operator
from silkline.errors import ConfigError, UnknownCrawl
from silkline.frontier.crawl_server import crawl_names, removals
from silkline.frontier.embedded.server import EmbeddedServer
from silkline.testing import Shop, SiteResponse
from silkline.testing.site import healing
from silkline.worker.crawl.loading import load_crawl
from tests.cli.sites import SHOP, chain, lines_of, wait_until
from tests.embedded.processes import client_of
from tests.held import held


@pytest.fixture
def run(silkline, valkey):
    def run_(*arguments, **options):
        return silkline("run", *arguments, "--redis", valkey.url, **options)

    return run_


@pytest.fixture
def start(running, valkey):
    """The same, without waiting for its end."""

    def start_(*arguments):
        return running("run", *arguments, "--redis", valkey.url)

    return start_


# ── a crawl from its start to its end ────────────────────────────────────────────────────────────────────────────────


def test_a_shop_goes_into_three_sinks_by_two_workers(run, site, write, workplace, crawl):
    shop = Shop(pages=84, trouble=False)
    file = write(site(shop), SHOP, obey_robots=True)
    answer = run(
        file, "-o", "items.jsonl", "-o", "sqlite:///items.db", "-o", "items.parquet", "--workers", "2", "--json"
    )
    assert answer.code == 0, answer.err
    assert parquet.read_table(workplace / "items.parquet").num_rows == 80
    assert sorted(lines_of(workplace / "items.jsonl"), key=lambda item: item["sku"]) == shop.items
    with sqlite3.connect(workplace / "items.db") as database:
        assert database.execute("SELECT count(*), count(DISTINCT sku) FROM items").fetchone() == (80, 80)
    told = answer.json
    expected = {"crawl": crawl, "finished": True, "interrupted": False, "resumed": False, "workers": 2, "restarts": 0}
    assert expected.items() <= told.items()
    assert (told["pages"], told["items"], told["done"], told["dead"]) == (84, 80, 84, 0)
    assert told["statuses"] == {"200": 84}
    assert told["bytes"] > 84 * 100
    assert told["slowest_hosts"][0]["pages"] == 84


def test_what_is_said_at_the_beginning_and_at_the_end(run, site, write, crawl):
    file = write(site(chain(3)), delay=0.01)
    answer = run(file, "-o", "items.jsonl")
    assert answer.code == 0
    assert "4 requests at a time and 0.01 s between two requests per host" in answer.err
    assert "Politeness(…) in books.py" in answer.err
    assert "robots.txt is ignored" in answer.err
    assert f"user agent {crawl}/1.0 (Silkline)" in answer.err
    assert "no contact:" in answer.err
    assert "no -o" not in answer.err
    assert answer.out.startswith(f"{crawl} is finished")
    rows = dict(line.split(None, 1) for line in answer.out.splitlines() if len(line.split(None, 1)) == 2)
    assert re.match(r"4 in \d+:\d\d", rows["pages"])
    assert rows["items"].strip() == "4, stored in items.jsonl"
    assert rows["statuses"].strip() == "200: 4"
    assert rows["total"].startswith("4 done, 0 dead, 4 seen")
    assert "slowest hosts" in answer.out


def test_quiet_leaves_the_summary_and_without_o_items_are_only_counted(run, site, write, workplace):
    file = write(site(chain(3)))
    answer = run(file, "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert "4, not stored: no -o was given" in answer.out
    assert "no -o: items are counted, not kept" in run(file, "--fresh", "--yes").err
    assert [path.name for path in workplace.iterdir() if path.suffix != ".py" and path.name != "__pycache__"] == []


def test_items_can_be_printed(run, site, write):
    file = write(site(chain(3)))
    answer = run(file, "-o", "-")
    assert answer.code == 0
    assert {json.loads(line)["path"] for line in answer.out.splitlines()} == {"", "1", "2", "3"}
    assert "is finished" in answer.err
    both = run(file, "-o", "-", "--json")
    assert both.code == 2
    assert "both write to stdout" in both.err


def test_hooks_start_and_end_a_run(run, site, write, workplace):
    code = """
    import msgspec

    @crawl.on_start
    async def more():
        yield site_url + "3"
        yield site_url + "1"

    @crawl.on_finish
    def note(summary):
        open("summary.json", "wb").write(msgspec.json.encode(summary))

    @crawl.handler
    def page(page):
        yield {"url": page.url}
    """
    here = site(chain(3))
    file = write(here, f"site_url = {here.url!r}\n" + code.replace("\n    ", "\n"))
    answer = run(file, "--json")
    assert answer.code == 0, answer.err
    assert json.loads((workplace / "summary.json").read_text()) == answer.json
    assert answer.json["done"] == 3


def test_what_users_print_does_not_get_into_the_result(run, site, write):
    code = """
    print("from the file")

    @crawl.handler
    def page(page):
        print("from a handler", "x" * 200_000)
        yield page.follow(page.css("a"))
    """
    answer = run(write(site(chain(2)), code), "--json")
    assert answer.code == 0
    assert answer.json["pages"] == 3
    assert "from the file" in answer.err
    assert answer.err.count("from a handler") == 3


def test_items_in_a_list_of_the_embedded_server(silkline, site, write, workplace):
    file = write(site(chain(2)))
    assert silkline("run", file, "-o", "redis:books").code == 0
    with EmbeddedServer.join(workplace / ".silkline") as server, client_of(server) as client:
        assert client.llen("books") == 3


def test_the_budget_ends_it(run, site, write):
    file = write(site(chain(30)), concurrency=1)
    answer = run(file, "--max-pages", "5", "-o", "items.jsonl")
    assert answer.code == 0
    assert "its budget is used up, and 26 requests are left" in answer.out


def test_the_budget_ends_a_crawl_with_dead_letters(run, site, write):
    file = write(site(chain(30, **{"/1": 404})), concurrency=1)
    answer = run(file, "--max-pages", "5", "-o", "items.jsonl")
    assert answer.code == 5
    assert "is finished, but has 1 dead letter; its budget is used up" in answer.out


def _small(workplace, file):
    """The same crawl with hardly any room."""
    path = workplace / file
    path.write_text(path.read_text().replace("fetching=", "capacity=5,\n    fetching="))
    return file


@pytest.mark.parametrize(
    ("arguments", "place"),
    [([], "books.overflow.db"), (["--overflow", "links.db"], "links.db")],
)
def test_a_full_crawl_continues(arguments, place, run, site, write, workplace):
    """Its links in the overflow file, and every page is fetched once."""
    there = site(chain(40))
    answer = run(_small(workplace, write(there)), "--workers", "2", "--json", *arguments)
    assert answer.code == 0, answer.err
    assert answer.json["done"] == 41
    assert len(there.visits) == 41
    assert (workplace / place).exists()


def test_links_of_the_embedded_server_wait_with_its_data(silkline, site, write, workplace):
    there = site(chain(40))
    file = _small(workplace, write(there))
    assert silkline("run", file, "--json").json["done"] == 41
    assert (workplace / ".silkline" / "overflow.db").exists()
    assert silkline("run", file, "--fresh", "--yes", "--json").json["done"] == 41
    assert len(there.visits) == 82


def test_links_that_wait_are_found_by_the_next_run(start, run, site, write, workplace):
    told = threading.Event()
    there = site(held(chain(40), told, free=5), latency=0.2)  # what is left would take 7 s
    file = _small(workplace, write(there, concurrency=1))
    running = start(file)
    wait_until((workplace / "books.overflow.db").exists)
    wait_until(lambda: len(there.visits) > 3)
    running.process.send_signal(signal.SIGTERM)
    running.wait_for("stopping")
    told.set()
    assert running.end() == 143
    assert len(there.visits) < 41
    assert run(file, "--json").json["done"] == 41
    assert len(there.visits) == 41


def test_a_full_crawl_without_an_overflow_says_that_it_does_not_move(start, site, write, workplace):
    running = start(_small(workplace, write(site(chain(40)))), "--overflow", "none")
    running.wait_for("the crawl is full, and this worker has no overflow")
    running.wait_for("pages are retried later; use --overflow PATH")
    assert not list(workplace.glob("*overflow.db"))


def test_the_embedded_server_and_a_second_terminal(silkline, running, site, write, workplace):
    here = site(chain(40), latency=0.1)
    file = write(here, concurrency=1)
    first = running("run", file, "-o", "items.jsonl")
    wait_until(lambda: len(here.visits) > 3)
    joined = silkline("worker", file, "-o", "items.jsonl")
    assert joined.code == 0, joined.err
    assert first.end() == 0
    assert len(lines_of(workplace / "items.jsonl")) == 41
    assert (workplace / ".silkline").is_dir()


# ── stopped, resumed, started over ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_drains_when_it_is_ordered_to_stop_and_resumes(
    number, code, start, run, site, write, *, frontier, workplace
):
    told = threading.Event()
    here = site(held(chain(40), told, free=10), latency=0.3)  # what is left would take 4 s
    file = write(here, concurrency=2)
    first = start(file, "-o", "items.jsonl", "--workers", "2")
    wait_until(lambda: len(here.visits) > 10)
    first.process.send_signal(number)
    first.wait_for("stopping")
    told.set()
    assert first.end() == code
    assert "is not finished" in first.out
    assert f"To continue: silkline run {file} -o items.jsonl" in first.out
    stats = frontier().admin.stats()
    assert stats.leased == 0
    assert 8 <= stats.done < 41
    again = run(file, "-o", "items.jsonl", "--json")
    assert again.code == 0
    assert f"resuming {stats.crawl}: {stats.done} done, {stats.ready} ready" in again.err
    assert again.json["resumed"]
    paths = [item["path"] for item in lines_of(workplace / "items.jsonl")]
    assert len(paths) == len(set(paths)) == 41
    assert len(here.visits) == 41


def test_a_second_ctrl_c_ends_at_once(start, site, write, frontier):
    here = site({"/": SiteResponse("never", delay=300)})
    file = write(here)
    process = start(file)
    wait_until(lambda: here.visits)
    process.process.send_signal(signal.SIGINT)
    process.wait_for("Ctrl-C again to exit now")
    process.process.send_signal(signal.SIGINT)
    assert process.end() == 130
    assert frontier().admin.stats().leased == 1  # it comes back when its lease expires


def test_a_finished_crawl_is_not_crawled_again_unless_it_is_wanted(run, site, write, workplace, valkey, crawl):
    here = site(chain(3))
    file = write(here)
    assert run(file, "-o", "items.jsonl").code == 0
    again = run(file, "-o", "items.jsonl")
    assert again.code == 0
    assert "is finished: 4 done. To start over: --fresh" in again.err
    assert len(here.visits) == 4
    asked = run(file, "-o", "items.jsonl", "--fresh")
    assert asked.code == 2
    assert "has 4 done and 4 seen; --fresh deletes all of it" in asked.err
    assert "needs --yes" in asked.err
    assert len(here.visits) == 4
    assert crawl not in [act.about for act in removals(valkey.url, 1000)]
    fresh = run(file, "-o", "items.jsonl", "--fresh", "--yes", "--json")
    assert (fresh.code, fresh.json["resumed"], fresh.json["done"]) == (0, False, 4)
    assert len(here.visits) == 8
    assert len(lines_of(workplace / "items.jsonl")) == 8  # what sinks hold stays
    assert removals(valkey.url, 1)[0][1:] == (operator(), "remove", crawl)


def test_a_budget_that_was_raised_or_taken_out_of_the_file_lets_the_crawl_continue(run, site, write):
    """`silkline init` writes one, and says that the line may be taken out."""
    file = write(site(chain(8)))
    assert run(file, "--max-pages", "3", "--json").json["done"] == 3
    raised = run(file, "--max-pages", "5", "--json")
    assert (raised.code, raised.json["done"], raised.json["finished"]) == (0, 5, True)
    assert "the crawl's budget pages was 3, now 5, as set in books.py" in raised.err
    without = run(file, "--json")
    assert (without.code, without.json["done"]) == (0, 9)
    assert "budget pages was 5, now unlimited" in without.err


def test_settings_that_cannot_be_changed_are_reported(run, site, write, workplace):
    file = write(site(chain(3)))
    assert run(file).code == 0
    path = workplace / file
    path.write_text(
        path.read_text()
        .replace("crawl = Crawl(", "crawl = Crawl(seen='compact', name=")
        .replace("name=\n    ", "name=")
    )
    changed = run(file)
    assert changed.code == 2
    assert "seen was exact, now compact" in changed.err
    assert "--fresh" in changed.err


def test_a_resumed_crawl_takes_on_another_pace(run, site, write, valkey, crawl):
    here = site(chain(3))
    assert run(write(here, delay=0.1)).code == 0
    with SyncFrontier.open(valkey.url, crawl=crawl, create=False) as frontier:
        frontier.forget([here.at("/3"), here.at("/")])
    slower = run(write(here, delay=0.3), "--host-concurrency", "2")
    assert slower.code == 0
    assert "2 requests at a time and 0.3 s between two requests per host" in slower.err
    assert "politeness has changed; before: 4 requests at a time and 0.1 s between two requests" in slower.err
    assert here.visits.to(here.hosts[0])[-1].at - here.visits.to(here.hosts[0])[-2].at >= 0.25


def test_dead_letters_are_reported_by_reason_and_revived(run, site, write, frontier, crawl):
    broken = """
    @crawl.handler
    def page(page):
        if page.url.endswith("/3"):
            raise ValueError("no price")
        yield page.follow(page.css("a"))
    """
    routes = chain(3, **{"/1": 404, "/2": healing(404, "well")})
    here = site(routes)
    file = write(here, broken)
    answer = run(file, handler_fails=True)
    assert answer.code == 5
    assert f"{crawl} is finished, but has 3 dead letters" in answer.out
    shown = f"silkline dead show {crawl} {answer.out.partition(f'dead show {crawl} ')[2].split()[0]}"
    assert f"To see the traceback: {shown}" in answer.out
    assert f"--redis {answer.out.partition('--redis ')[2].split()[0]} --revive" in answer.out
    dead = {line.rsplit(None, 2)[0].strip(): line.split()[-1] for line in answer.out.splitlines() if "://" in line}
    group = next(name for name in dead if name.startswith("handler page: ValueError (books.py:"))
    assert dead[group] == here.at("/3")
    assert dead["status 404"] in (here.at("/1"), here.at("/2"))
    again = run(file, "--revive", "--json", handler_fails=True)
    assert again.code == 5
    assert "3 dead letters revived" in again.err
    assert [act[1:] for act in frontier().admin.audit()] == [(operator(), "revive", "all: 3")]
    groups = {group["reason"]: group["count"] for group in again.json["dead_letters"]}
    assert groups == {"status 404": 1, group: 1}
    assert again.json["errors"]["ValueError"] == 1


def test_a_crawl_that_pauses_itself_says_why_and_continues_with_a_file_that_was_corrected(run, site, write, crawl):
    wrong = """
    @crawl.handler
    def page(page):
        yield page.follow(page.css("a"), product)

    @crawl.handler
    def product(page):
        yield {"price": page.css_first(SELECTOR).text()}
    """
    links = "".join(f"<a href=/p/{number}>x</a>" for number in range(200))
    here = site({"/": links, "/p/*": "<p class=price>3</p>"})
    file = write(here, wrong.replace("SELECTOR", "'.prize'"))
    answer = run(file, "--workers", "2", handler_fails=True)
    assert answer.code == 1
    why = "the last 50 pages of handler product all failed with AttributeError (books.py:"
    assert f"{crawl} is paused because {why}" in answer.out.replace("\n", " ")
    assert f"{why}" in answer.err
    assert "To continue" not in answer.out, "it needs --revive"
    assert f"To retry them: silkline run {file}" in answer.out
    assert len(list(here.visits)) < 200
    write(here, wrong.replace("SELECTOR", "'.price'"))
    again = run(file, "--revive", "-o", "items.jsonl", "--json")
    assert again.code == 0, again.err
    assert f"the crawl had paused itself because {why}" in again.err.replace("\n", " ")
    assert again.json["items"] == 200


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def workers_of(process):
    return [one for one in psutil.Process(process.pid).children() if "worker" in one.cmdline()]


def test_a_worker_that_is_killed_is_replaced(start, site, write, valkey, workplace):
    killed = threading.Event()
    here = site(held(chain(60), killed, free=12))
    file = write(here)
    process = start(file, "-o", "sqlite:///items.db", "--workers", "2", "--lease", "2", "--json")
    wait_until(lambda: len(here.visits) > 10 and len(workers_of(process.process)) == 2)
    children = workers_of(process.process)
    assert not any(valkey.url in word for child in children for word in child.cmdline())  # it may hold a password
    children[0].kill()
    process.wait_for("died (SIGKILL, ")
    killed.set()
    assert process.end() == 0, process.err
    told = json.loads(process.out)
    assert (told["restarts"], told["done"]) == (1, 61)
    with sqlite3.connect(workplace / "items.db") as database:
        assert database.execute("SELECT count(*), count(DISTINCT path) FROM items").fetchone() == (61, 61)


def test_workers_do_not_outlive_whoever_started_them(start, site, write, frontier):
    here = site(chain(2000), latency=0.1)
    process = start(write(here))
    wait_until(lambda: len(here.visits) > 5)
    [child] = workers_of(process.process)
    process.process.kill()
    psutil.wait_procs([child], timeout=100)
    assert not child.is_running()
    stats = frontier().admin.stats()
    assert stats.leased == 0
    assert stats.ready > 0


def test_a_worker_that_cannot_work_is_reported(run, site, write):
    code = """
    import os, sys
    if "worker" in sys.argv:
        raise SystemExit("out of order")

    @crawl.handler
    def page(page):
        pass
    """
    answer = run(write(site(chain(3)), code))
    assert answer.code == 1
    assert "worker 1 cannot work: " in answer.err
    assert "out of order" in answer.err


def test_a_sink_that_is_down_stops_the_crawl_until_it_is_back(start, site, write, workplace):
    gone = threading.Event()
    here = site(held(chain(60), gone, free=12))
    process = start(write(here), "-o", "out/items.jsonl")
    wait_until(lambda: len(here.visits) > 10)
    (workplace / "out").rename(workplace / "elsewhere")
    gone.set()
    process.wait_for("items cannot be stored")
    (workplace / "elsewhere").rename(workplace / "out")
    assert process.end() == 0, process.err
    assert len({item["path"] for item in lines_of(workplace / "out" / "items.jsonl")}) == 61


MISTAKES = {
    "def": "books.py, line 1: SyntaxError",
    "x = 1": "books.py defines no crawl",
    "import nowhere": "books.py, line 1: ModuleNotFoundError: No module named 'nowhere'",
    "exit('no')": "books.py, line 1: SystemExit: no",
    "from silkline import Crawl\na = Crawl('a')": "the crawl 'a' has no handler",
    "from silkline import Crawl\na = Crawl('a')\nb = Crawl('b')": "several crawls (a, b); name one: ",
    "from silkline import Crawl\na = Crawl('a', start='nonsense')": "books.py, line 2: the crawl 'a' cannot start at 'nonsense': not an absolute URL",
    "from silkline import Crawl\na = Crawl('a b')": "books.py, line 2: a crawl's name must be",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_the_file_is_named(workplace, text):
    (workplace / "books.py").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_crawl(str(workplace / "books.py"))
    assert MISTAKES[text] in str(raised.value)


def test_a_mistake_in_the_file_is_one_line_without_a_traceback(run, workplace):
    (workplace / "books.py").write_text("import nowhere")
    error = "error: books.py, line 1: ModuleNotFoundError: No module named 'nowhere'\n"
    assert run("books.py") == (2, "", error)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.json"], "error: there is no file nowhere.json\n"),
        (["nowhere.py"], "there is no file nowhere.py; to write one: silkline init nowhere.py"),
        (["books.py:other"], "books.py has no crawl named 'other'"),
        (["books.py", "-o", "items.doc"], "unknown output 'items.doc'"),
        (["books.py", "-o", "/dev/null/items.jsonl"], "cannot be written"),
        (["books.py", "-o", "--json"], "-o needs a destination"),
        (["books.py", "--workers", "0"], "--workers"),
        (["books.py", "--overflow", "/no/such/links.db"], "the overflow file /no/such/links.db cannot be used"),
        (["books.py", "--delay", "-1"], "--delay"),
    ],
)
def test_a_mistake_on_the_command_line_is_a_sentence(run, site, write, valkey, frontier, arguments, words):
    write(site(chain(1)))
    answer = run(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert words in answer.err


def test_a_start_that_fails_is_a_sentence(run, write, site):
    code = "@crawl.on_start\ndef seeds():\n    return 1 / 0\n\n@crawl.handler\ndef page(page):\n    pass\n"
    answer = run(write(site(chain(1)), code))
    assert answer.code == 2
    assert "on_start hook seeds failed: ZeroDivisionError: division by zero" in answer.err
    assert "books.py, line" in answer.err


def test_a_crawl_without_a_start_is_a_sentence(run, write, crawl):
    answer = run(write([]))
    assert answer.code == 2
    assert f"has no start URLs: set start=[…] in its file, or enqueue URLs: silkline enqueue {crawl}" in answer.err


def keys_of(valkey, crawl):
    with valkey.client() as client:
        return [key for key in client.scan_iter(f"silkline:{{{crawl}*", 1000) if b":once:" not in key]


@pytest.mark.parametrize("fails", ["without a start", "busy port"])
def test_a_run_that_fails_leaves_no_crawl(run, write, site, crawl, valkey, fails):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if fails == "busy port":
            answer = run(write(site(chain(1))), "--metrics", f"127.0.0.1:{port}")
        else:
            answer = run(write([]))
    assert answer.code == 2, answer.err
    assert crawl not in crawl_names(valkey.url)
    assert not keys_of(valkey, crawl)


@pytest.mark.parametrize("meanwhile", ["enqueue('https://a.example/')", "internal.join('other')"])
def test_a_crawl_that_others_use_stays_when_the_run_fails(run, write, crawl, valkey, meanwhile):
    code = f"""
from silkline import SyncFrontier

@crawl.on_start
def seeds():
    with SyncFrontier.open({valkey.url!r}, crawl={crawl!r}) as other:
        other.{meanwhile}
    return []

@crawl.handler
def page(page):
    pass
"""
    answer = run(write([], code))
    assert answer.code == 2
    assert "has no start URLs" in answer.err
    assert crawl in crawl_names(valkey.url)


def test_a_server_out_of_reach_is_reported(silkline, write):
    answer = silkline("run", write(["http://127.0.0.1:1/"]), "--redis", "redis://user:geheim@127.0.0.1:1")
    assert answer.code == 3
    assert "cannot be reached" in answer.err
    assert "geheim" not in answer.err


# ── a start on this machine ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "start", ['["https://example.com/", "http://127.0.0.1:8088/"]', '"http://shop.localhost:8088/"', '"http://[::1]/"']
)
def test_a_local_start_names_the_flag_before_anything_is_stored(start, run, workplace, valkey, crawl):
    (workplace / "local.py").write_text(
        f"from silkline import Crawl\ncrawl = Crawl({crawl!r}, {start})\n@crawl.handler\ndef parse(page): ...\n"
    )
    answer = run("local.py", "-o", "items.jsonl")
    assert answer.code == 2
    assert "which is a loopback address" in answer.err
    assert f"silkline run local.py -o items.jsonl --redis {valkey.url} --allow-private" in " ".join(answer.err.split())
    with pytest.raises(UnknownCrawl):
        SyncFrontier.open(valkey.url, crawl=crawl, create=False)


def test_local_starts_that_a_function_gives_name_the_flag_too(run, workplace, crawl):
    (workplace / "local.py").write_text(
        f"from silkline import Crawl\ncrawl = Crawl({crawl!r}, lambda: ['http://10.0.0.1/'])\n"
        "@crawl.handler\ndef parse(page): ...\n"
    )
    answer = run("local.py")
    assert answer.code == 2
    assert "starts at http://10.0.0.1/, which is a private address" in " ".join(answer.err.split())
    assert "--allow-private" in answer.err
