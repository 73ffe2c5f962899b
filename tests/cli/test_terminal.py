import re
import signal

import pytest

from tests.cli.sites import chain
from tests.cli.terminal import Terminal


@pytest.fixture
def terminal(workplace):
    """Starts commands on a pseudo-terminal."""
    started = []

    def start(*arguments):
        started.append(Terminal(*arguments, cwd=workplace))
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
    assert "━" in screen.text
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", screen.text)
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
    assert re.search(r"about \d:\d\d left", text)
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
