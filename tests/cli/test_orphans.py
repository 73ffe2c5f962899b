"""Workers whose run was killed: each of them ends, whatever it was doing, and none spins."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from textwrap import dedent

import psutil
import pytest

from silkline.worker.crawl.loading import load_crawl
from silkline.worker.process import orphans
from tests.cli.sites import chain, wait_until

HANDLER = """
import ctypes, sys, time

@crawl.handler
async def parse(page):
    if page.url.endswith("/7"):
        open("arrived", "w").close()
        {deed}
    yield {{"path": page.url}}
    yield page.follow(page.css("a"))
"""
PAGES = {
    "sleeps": "time.sleep(600)",
    "computes": "while True: pass",
    "holds the GIL": "ctypes.PyDLL(None).sleep(600)",
}


@pytest.fixture
def orphan(running, valkey, workplace):
    """Starts a run, and kills it when its worker has arrived where the test wants it. Returns the worker."""
    workers = []

    def start(file, *options):
        run = running("run", file, *options, "--redis", valkey.url)
        wait_until((workplace / "arrived").exists)
        workers.extend(one for one in psutil.Process(run.process.pid).children() if "worker" in one.cmdline())
        run.process.kill()
        return workers[0]

    yield start
    for worker in workers:
        if worker.is_running():
            worker.kill()


@pytest.mark.parametrize("what", PAGES)
def test_a_page_that_blocks_its_worker_does_not_keep_it_alive(orphan, site, write, what):
    file = write(site(chain(40), latency=0.02), HANDLER.format(deed=PAGES[what]))
    worker = orphan(file, "--blocked-limit", "2")
    assert psutil.wait_procs([worker], timeout=100)[0] == [worker]


def test_a_worker_that_loads_its_file_ends(orphan, site, write):
    stays = """
    if "worker" in sys.argv:
        open("arrived", "w").close()
        time.sleep(600)
    """
    file = write(site(chain(3)), HANDLER.format(deed="pass") + dedent(stays))
    worker = orphan(file)
    assert psutil.wait_procs([worker], timeout=100)[0] == [worker]


@pytest.fixture
def start_worker(valkey, workplace):
    """Starts a worker that reports to a pipe."""
    started = []

    def start(file, pipe, *options):
        command = [sys.executable, "-m", "silkline", "worker", file, "--redis", valkey.url, "--report-to", str(pipe)]
        started.append(
            subprocess.Popen([*command, *options], cwd=workplace, pass_fds=[pipe], stderr=subprocess.DEVNULL)
        )
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def test_a_worker_that_waits_for_a_sink_ends(start_worker, site, write, workplace, frontier):
    file = write(site(chain(3)))
    frontier(**load_crawl(str(workplace / file)).arguments)
    reading, writing = os.pipe()
    worker = start_worker(file, writing, "-o", "postgresql://nobody@127.0.0.1:1/items")
    os.close(writing)
    assert b"127.0.0.1" in os.read(reading, 65536)  # a report: why it waits
    os.close(reading)
    assert worker.wait(100) == -signal.SIGTERM


def test_a_worker_that_was_started_too_late_ends_at_once(start_worker, workplace):
    """The run died while the worker was being started: the pipe has no reader from the beginning."""
    reading, writing = os.pipe()
    os.close(reading)
    (workplace / "books.py").write_text("import time\ntime.sleep(600)\n")
    worker = start_worker("books.py", writing)
    os.close(writing)
    assert worker.wait(100) == -signal.SIGTERM


def test_a_forked_child_of_the_run_that_keeps_the_pipe_does_not_keep_the_worker(monkeypatch):
    """The pipe still has a reader, but another process is the parent now."""
    monkeypatch.setattr(orphans, "CHECK_EVERY", 0.01)
    reading, writing = os.pipe()
    told = []
    monkeypatch.setattr(os, "kill", lambda pid, number: told.append((pid, number)))
    monkeypatch.setattr(orphans, "_silence", lambda: None)
    watch = orphans.OrphanWatch(writing, 1000)
    watch.start()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    watch.join()
    signal.alarm(0)
    os.close(reading)
    os.close(writing)
    assert told == [(os.getpid(), signal.SIGTERM)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs the parent death signal of Linux")
def test_the_signal_of_the_kernel_does_not_shorten_the_time_that_a_worker_has():
    """The kernel closes the pipe of a process that dies before it signals its death."""
    program = """
    import os, signal
    from silkline.worker.process import orphans

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reading, writing = os.pipe()
    orphans._arm_kernel()
    watch = orphans.OrphanWatch(writing, 1000)
    watch.start()
    os.close(reading)
    watch.join()
    os.kill(os.getpid(), signal.SIGSTKFLT)
    print(signal.alarm(0) > signal.SIGSTKFLT)
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"True\n"


def test_a_log_line_without_a_reader_does_not_end_the_thread_that_writes_it():
    """Rich exits when its reader has left; in the watchdog's thread, that would end the watchdog only."""
    program = """
    import logging, threading
    from silkline.cli.logs import log_to_screen

    log_to_screen("info")
    went_on = threading.Event()

    def watch():
        logging.warning("nobody reads this")
        logging.warning("nor this")
        went_on.set()

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    print(went_on.is_set())
    """
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", dedent(program)], stdout=subprocess.PIPE, stderr=writing, check=False)
    os.close(writing)
    assert done.stdout == b"True\n"
    assert done.returncode in (0, 120)  # some versions of Python say that stderr cannot be flushed


def test_a_run_whose_embedded_server_was_deleted_says_so_and_ends(running, site, write, workplace):
    """The server of the deleted directory ends, and none is started in its place."""
    here = site(chain(2000), latency=0.1)
    run = running("run", write(here), "-q")
    wait_until(lambda: len(here.visits) > 5)
    server = int((workplace / ".silkline" / "valkey.pid").read_text())
    shutil.rmtree(workplace / ".silkline")
    os.kill(server, signal.SIGKILL)
    assert run.end() == 3
    assert f"embedded:{workplace}/.silkline was deleted or moved while it was in use" in run.err
    assert not (workplace / ".silkline").exists()
