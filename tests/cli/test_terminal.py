import os
import re
import signal
import subprocess
from itertools import takewhile

import pytest

from silkline import Bury, Politeness
from silkline.frontier.verbs.history import Counts, HandlerCounts
from silkline.frontier.verbs.hosts import StatusCounts
from tests.cli.processes import COMMAND, environment
from tests.cli.sites import chain
from tests.cli.terminal import CONTROL, Terminal

SIZES = pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
BROKEN_SHOPS = [f"127.0.0.{number}:8440" for number in range(12, 20)]
LONG_NAME = "a-very-long-name-of-a-shop-in-a-mall.europe.example:8088"


@pytest.fixture
def terminal(workplace, forker):
    """Starts commands on a pseudo-terminal."""
    started = []

    def start(*arguments, **size):
        started.append(Terminal(*arguments, cwd=workplace, forker=forker, **size))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_enqueue_shows_a_bar_that_moves_and_goes(terminal, valkey, crawl, workplace):
    with (workplace / "urls").open("w") as file:
        file.writelines(f"https://h{i % 50}.example/{i}\n" for i in range(60_000))
    screen = terminal("enqueue", crawl, "--file", "urls", "--redis", valkey.url)
    assert screen.end() == 0
    counts = {int(count.replace(",", "")) for count in re.findall(r"([\d,]+) added,", screen.text)}
    assert len(counts) > 1
    assert "━" in screen.text
    assert f"{crawl} (created): " in re.sub(r"\x1b\[[\d;]*m", "", screen.text)
    assert "60,000" in screen.text
    assert "\x1b[2K" in screen.text  # the bar is wiped


def test_the_bar_says_that_it_waits_and_ctrl_c_ends_it(terminal, valkey, crawl, workplace):
    (workplace / "urls").write_text("".join(f"https://a.example/{i}\n" for i in range(50)))
    screen = terminal("enqueue", crawl, "--file", "urls", "--redis", valkey.url, "--capacity", "10")
    screen.wait_for("full, waiting: 10 added")
    screen.process.send_signal(signal.SIGINT)
    assert screen.end() == 130
    assert "Traceback" not in screen.text
    assert "Nothing is lost" in screen.text


def test_urls_can_be_typed(terminal, valkey, crawl):
    screen = terminal("enqueue", crawl, "-", "--redis", valkey.url)
    screen.type(b"https://a.example/typed\n\x04")
    assert screen.end() == 0
    assert "added" in screen.text


def test_errors_are_red(terminal):
    screen = terminal("status", "--redis", "nonsense")
    assert screen.end() == 2
    assert "\x1b[1;31merror:\x1b[0m" in screen.text


def test_the_demo_of_the_shop_on_a_terminal(terminal):
    screen = terminal("demo", "--pages", "300", "--hosts", "31", "--delay", "0.1")
    screen.wait_for("pages/s")
    screen.wait_for("SIGKILL to worker ")
    assert screen.end() == 0
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", screen.text)
    assert re.search(r"\d+ done, \d+ waiting  [\d.]+ pages/s", text)
    assert re.search(r"all products +285 +285 +0 +0", text)
    assert "285 of 285 items stored: none missing, no duplicates" in text


def test_a_run_on_a_terminal(terminal, site, write, valkey):
    here = site(chain(60), latency=0.1)
    screen = terminal("run", write(here, concurrency=2), "-o", "items.jsonl", "--redis", valkey.url)
    screen.wait_for("pages/s")
    screen.wait_for("in flight 2")
    assert screen.end() == 0
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", screen.text)
    assert len(set(re.findall(r"done (\d+)", text))) > 3
    assert re.search(r"\d+ done, \d+ waiting  [\d.]+ pages/s", text), "a short crawl has no end that it could know"
    assert "61, stored in items.jsonl" in text
    assert "\x1b[2K" in screen.text  # the board is wiped


def test_ctrl_c_on_a_terminal(terminal, site, write, valkey, frontier):
    here = site(chain(200), latency=0.3)  # all of it would take 15 s
    screen = terminal("run", write(here), "--redis", valkey.url)
    screen.wait_for("in flight 4")
    screen.process.send_signal(signal.SIGINT)
    screen.wait_for("Ctrl-C again to exit now")
    assert screen.end() == 130
    assert "To continue" in screen.text
    assert "Traceback" not in screen.text
    assert frontier().admin.stats().leased == 0


@pytest.mark.parametrize(("key", "code", "visits"), [(b"n", 2, 2), (b"y", 0, 4), (b"", 130, 2)])
def test_fresh_asks_on_a_terminal(terminal, silkline, site, write, valkey, *, key, code, visits):
    here = site(chain(1))
    file = write(here)
    assert silkline("run", file, "--redis", valkey.url).code == 0
    screen = terminal("run", file, "--fresh", "--redis", valkey.url)
    screen.wait_for("has 2 done and 2 seen. --fresh deletes all of it")
    screen.wait_for("Start over? [y/N]")
    if key:
        screen.type(key + b"\n")
    else:
        screen.process.send_signal(signal.SIGINT)
    assert screen.end() == code
    assert len(here.visits) == visits


@pytest.fixture
def troubled(frontier):
    """A crawl that needs an operator: hosts that fail, handlers that fail, dead letters, and no worker."""
    one = frontier(politeness=Politeness(delay=0, concurrency=100))
    hosts = [*BROKEN_SHOPS, LONG_NAME, "a.example", "b.example"]
    one.enqueue([f"http://{host}/p-{number}?{'q' * 70}={host}" for host in hosts for number in range(20)])
    one.settle([(lease, Bury("status 503, after five attempts", 503)) for lease in one.claim(40)])
    answers = StatusCounts(status_2xx=1, status_3xx=2, status_4xx=1, status_5xx=596, failed=2, last=503, cpu=1.4)
    one.internal.add_answers(dict.fromkeys(hosts, answers))
    handlers = {name: HandlerCounts(pages=1200, exceptions=7).numbers for name in ("listing", "product")}
    one.internal.add_history(Counts(pages=2400), None, handlers)
    return one


@pytest.fixture
def shown(terminal, valkey, crawl):
    """The lines that a command prints on a terminal of this size."""

    def run(*arguments, columns, lines):
        screen = terminal(*arguments, "--redis", valkey.url, columns=columns, lines=lines)
        assert screen.end() == 0
        printed = [line.rstrip() for line in CONTROL.sub("", screen.text).replace("\r", "").splitlines()]
        assert max(map(len, printed)) <= columns
        return printed

    return run


@SIZES
def test_every_character_of_a_url_is_shown(shown, troubled, crawl, columns, lines):
    printed = shown("dead", "ls", crawl, "--letters", columns=columns, lines=lines)
    start = printed[0].index("url")
    rows = takewhile(lambda line: not line.startswith(("The newest", "More:")), printed[1:])
    urls = re.split(r"(?=http://)", "".join(line[start:] for line in rows))
    letters = troubled.admin.dead(limit=len(urls) - 1)
    assert len(letters) >= 20
    assert urls == ["", *(letter.url for letter in letters)]
    text = "\n".join(printed)
    assert all(letter.id in text for letter in letters)
    assert ("buried" in printed[0]) == (columns == 200)


@SIZES
@pytest.mark.parametrize("command", [["host", "ls"], ["status"], ["crawl", "show"]])
def test_the_errors_of_hosts_are_on_every_screen(shown, troubled, crawl, command, columns, lines):
    printed = shown(
        *command, crawl, *(["--sort", "trouble"] if command[0] == "host" else []), columns=columns, lines=lines
    )
    [heading] = [line for line in printed if line.startswith("host  ")]
    place = heading.index("responses")
    rows = [line for line in printed if line.split(":")[0] in [host.split(":")[0] for host in BROKEN_SHOPS]]
    assert len(rows) >= 3
    assert all(line[place:].startswith("99 % 5xx ") for line in rows)
    assert ("CPU" in heading) == (columns == 200)


@SIZES
def test_what_an_operator_needs_of_a_crawl_fits_on_the_screen(shown, troubled, crawl, columns, lines):
    printed = shown("status", crawl, columns=columns, lines=lines)
    assert len(printed) < lines, "the last line is for the shell"
    assert printed[0] == f"{crawl} is idle"
    advice = " ".join(printed[printed.index("", -4) + 1 :])
    assert advice == "180 requests wait and no worker is running: start one with silkline worker FILE"
    assert "silkline worker FILE" in printed[-1]
    assert any(line.startswith("product ") for line in printed)
    text = "\n".join(printed)
    assert "politeness" not in text
    assert (f"For more: silkline crawl show {crawl}" in text) == (lines == 24)


@SIZES
def test_top_shows_errors_first_and_cuts_no_graph(terminal, troubled, crawl, valkey, columns, lines):
    screen = terminal("top", crawl, "--every", "0.1", "--redis", valkey.url, columns=columns, lines=lines)
    for _ in range(25):  # a graph has 20 rates
        screen.text = ""
        screen.wait_for("q quit")
    screen.text = ""
    frame = screen.frame_with("q quit")
    screen.type(b"q")
    assert screen.end() == 0
    assert max(map(len, frame)) <= columns
    [row] = [line for line in frame if line.startswith(f"{crawl} ")]
    assert "…" not in row
    place = next(line.index("responses") for line in frame if line.startswith("host "))
    assert [line[place:][:8] for line in frame if line.startswith("127.0.0.")][:2] == ["99 % 5xx"] * 2


@pytest.mark.parametrize("command", ["status", "run"])
def test_a_reader_that_exits_is_no_error(frontier, site, write, crawl, valkey, workplace, command):
    if command == "status":
        frontier().enqueue("https://a.example/")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [COMMAND, command, crawl if command == "status" else write(site(chain(1))), "--redis", valkey.url],
        stdout=writing,
        stderr=subprocess.PIPE,
        cwd=workplace,
        env=environment(),
        check=False,
    )
    os.close(writing)
    assert (done.returncode, b"BrokenPipe" in done.stderr) == (0, False)
