"""Faults, and what a crawl with real workers, a real server and a real site shows while they happen.

To add a fault, write a function that gets a `Stage` and makes it happen, and give it a line in `FAULTS`.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from silkline import Politeness, SyncFrontier
from silkline.testing import LocalSite
from silkline.testing.site.responses import prepare
from tests.chaos.proxy import Proxy
from tests.faults import history
from tests.servers import Server

HERE = Path(__file__).parent
WORKERS = 3
LATENCY = 0.15
PATIENCE = 120.0
"""Seconds after which a crawl that has not finished counts as stuck."""


class Size(NamedTuple):
    """The site and the politeness of a run."""

    hosts: int = 8
    pages: int = 60
    delay: float = 0.1
    cap: int = 2
    lease: float = 10.0


SHORT = Size(hosts=6, pages=25, delay=0.1, lease=2.0)


class Outcome(NamedTuple):
    """What one run showed."""

    fault: str
    seed: int
    requests: int
    lost: int
    repeated: int
    """Pages that were completed again, after the server had lost writes."""
    violations: tuple[str, ...]
    short_gaps: tuple[float, ...]
    """Gaps between two requests to a host that were too short, in seconds."""
    recoveries: tuple[float, ...]
    """Seconds until the crawl had recovered, for each page or worker that the fault hit."""
    seconds: float


class Stage:
    """A crawl that runs: its server, workers and site."""

    def __init__(self, size, seed, folder, **config):
        self.size = size
        self.dice = random.Random(seed)
        self.folder = folder
        self.server = Server(**config)
        self.site = LocalSite({"/p/*": self._page}, hosts=size.hosts, latency=LATENCY)
        self.proxy = None
        self.blocks = ""
        self.workers = {}
        self.logs = {}
        self.marks = []
        """(moment, worker), or (moment, None) for a fault of the server."""
        self.recoveries = []

    def _page(self, visit):
        number = int(visit.path.removeprefix("/p/"))
        host = int(visit.address.rpartition(".")[2]) - 1
        links = [((host + 1) % self.size.hosts, number)] + [(host, number + 1)] * (number + 1 < self.size.pages)
        return prepare("".join(f'<a href="{self.site.at(f"/p/{page}", to)}">x</a>' for to, page in links))

    @property
    def pages(self):
        return {
            self.site.at(f"/p/{number}", host) for host in range(self.size.hosts) for number in range(self.size.pages)
        }

    @property
    def url(self):
        return self.proxy.url if self.proxy else self.server.url

    def open(self):
        politeness = Politeness(delay=self.size.delay, concurrency=self.size.cap)
        return SyncFrontier.open(self.server.url, crawl="faults", politeness=politeness)

    def start_worker(self):
        number = len(self.logs)
        self.logs[number] = self.folder / f"log-{number}"
        settings = {
            "url": self.url, "crawl": "faults", "delay": self.size.delay, "cap": self.size.cap, "lease": self.size.lease,
            "log": str(self.logs[number]), "items": str(self.folder / f"items-{number}.jsonl"),
            "folder": str(self.folder), "blocks": self.blocks,
        }  # fmt: skip
        with (self.folder / f"stderr-{number}").open("wb") as errors:
            self.workers[number] = subprocess.Popen(
                [sys.executable, HERE / "worker.py", json.dumps(settings)], stderr=errors
            )
        return number

    def replace(self, number):
        del self.workers[number]
        self.start_worker()

    def busy_worker(self):
        """Wait until workers hold pages, and return one that does."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            seen = history.read(self.logs)
            busy = [number for number in sorted(self.workers) if seen.held_by(number) > 0]
            if busy:
                return self.dice.choice(busy)
            time.sleep(0.01)
        raise TimeoutError(f"no worker holds a page; {self.trouble()}")

    def mark(self, worker=None):
        self.marks.append((time.monotonic(), worker))

    def items(self):
        urls = []
        for path in self.folder.glob("items-*.jsonl"):
            urls += [json.loads(line)["url"] for line in path.read_text().splitlines() if line.endswith("}")]
        return urls

    def wait_for_pages(self, count, patience=PATIENCE):
        """Wait until the site has had this many visits, so that a fault happens in the middle of the crawl."""
        deadline = time.monotonic() + patience
        while len(self.site.visits) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {len(self.site.visits)} of {count} visits; {self.trouble()}")
            time.sleep(0.02)

    def trouble(self):
        return " | ".join(path.read_text()[-600:] for path in sorted(self.folder.glob("stderr-*")))

    def finish(self):
        """Wait until the workers have left because the crawl is finished."""
        deadline = time.monotonic() + PATIENCE
        for process in self.workers.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"the crawl did not finish within {PATIENCE:g} s; {self.trouble()}") from None

    def close(self):
        for process in self.workers.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        if self.proxy:
            self.proxy.__exit__()
        self.server.remove()


# ── faults ──


def nothing(_stage):
    """Nothing happens: what the others are compared with."""


def kill_workers(stage):
    """A worker is killed (SIGKILL), three times; another one takes its place."""
    for moment in range(3):
        stage.wait_for_pages((moment + 1) * stage.size.hosts * stage.size.pages // 5)
        number = stage.busy_worker()
        stage.workers[number].kill()
        stage.mark(number)
        stage.workers[number].wait()
        stage.replace(number)


def terminate_workers(stage):
    """A worker gets SIGTERM, twice: it finishes the pages in progress or gives them back, and leaves."""
    for moment in range(2):
        stage.wait_for_pages((moment + 1) * stage.size.hosts * stage.size.pages // 4)
        number = stage.busy_worker()
        stage.workers[number].terminate()
        began = time.monotonic()
        stage.workers[number].wait(60)
        stage.recoveries.append(time.monotonic() - began)
        stage.replace(number)


def freeze_worker(stage):
    """A worker is stopped (SIGSTOP) for longer than its leases last, and continues."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 4)
    number = stage.busy_worker()
    stage.workers[number].send_signal(signal.SIGSTOP)
    stage.mark(number)
    time.sleep(stage.size.lease + 1.5)
    stage.workers[number].send_signal(signal.SIGCONT)


def block_event_loop(stage):
    """A handler blocks the event loop of its worker for four seconds."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 2)


def kill_server(stage):
    """The server is killed (SIGKILL) and started again."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 3)
    stage.server.kill()
    time.sleep(stage.dice.uniform(0.1, 1.0))
    stage.server.start()
    stage.mark()


def restart_server(stage):
    """The server is stopped (SIGTERM) and started again: scripts and connections are gone."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 3)
    stage.server.stop()
    stage.server.start()
    stage.mark()


def freeze_server(stage):
    """The server does not reply for three seconds."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 3)
    stage.server.freeze()
    time.sleep(3)
    stage.server.thaw()
    stage.mark()


def roll_back_server(stage):
    """The server is killed, and a second later it has the data of half a second before, as a replica that lags."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 3)
    stage.server.snapshot()
    time.sleep(0.5)
    stage.server.kill()
    time.sleep(1)
    stage.server.roll_back()
    stage.mark()


def flush_scripts(stage):
    """SCRIPT FLUSH, a hundred times."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 4)
    with stage.server.client() as client:
        for _ in range(100):
            client.script_flush()
            time.sleep(0.01)
    stage.mark()


def fill_memory(stage):
    """The server has no memory left for three seconds, under noeviction."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 3)
    with stage.server.client() as client:
        client.config_set("maxmemory", 1)
        time.sleep(3)
        client.config_set("maxmemory", 0)
    stage.mark()


def cut_connections(stage):
    """Connections are cut in the middle of a reply, forty times, and all at once, three times."""
    for moment in range(3):
        stage.wait_for_pages((moment + 1) * stage.size.hosts * stage.size.pages // 5)
        stage.proxy.cut_replies(13, share=stage.dice.random())
        time.sleep(0.3)
        stage.proxy.hang_up()
        stage.mark()


def black_hole(stage):
    """The network between workers and server swallows everything for three seconds, and closes no connection."""
    stage.wait_for_pages(stage.size.hosts * stage.size.pages // 3)
    stage.proxy.swallow()
    time.sleep(3)
    stage.proxy.swallow(False)
    stage.mark()


class Fault(NamedTuple):
    """How a fault is made, and what it may cost."""

    happen: Callable[[Stage], None]
    config: dict[str, str] = {}
    proxy: bool = False
    blocks: str = ""
    may_lose: bool = False
    """Whether the server may lose its last writes: pages may be fetched again, and links that were found in them may be lost."""


ALWAYS = {"appendonly": "yes", "appendfsync": "always"}
EVERYSEC = {"appendonly": "yes", "appendfsync": "everysec"}

FAULTS = {
    "no fault": Fault(nothing),
    "worker killed": Fault(kill_workers),
    "worker terminated": Fault(terminate_workers),
    "worker frozen": Fault(freeze_worker),
    "event loop blocked": Fault(block_event_loop, blocks="/p/9"),
    "server killed, appendfsync always": Fault(kill_server, ALWAYS),
    "server killed, appendfsync everysec": Fault(kill_server, EVERYSEC, may_lose=True),
    "server restarted": Fault(restart_server, EVERYSEC),
    "server frozen": Fault(freeze_server),
    "server loses its last writes": Fault(roll_back_server, may_lose=True),
    "scripts flushed": Fault(flush_scripts),
    "server out of memory": Fault(fill_memory),
    "connections cut": Fault(cut_connections, proxy=True),
    "network swallows everything": Fault(black_hole, proxy=True),
}


def run(name, seed, size):
    """Run a crawl during which the fault happens, and return what it showed."""
    fault = FAULTS[name]
    folder = Path(tempfile.mkdtemp(prefix="silk-faults-"))
    stage = Stage(size, seed, folder, **fault.config)
    stage.blocks = fault.blocks
    began = time.monotonic()
    try:
        stage.server.start()
        if fault.proxy:
            stage.proxy = Proxy(stage.server.socket).__enter__()
        with stage.site:
            with stage.open() as frontier:
                frontier.enqueue([stage.site.at("/p/0")])
            for _ in range(WORKERS):
                stage.start_worker()
            fault.happen(stage)
            stage.finish()
            return _outcome(name, seed, stage, fault, time.monotonic() - began)
    finally:
        stage.close()
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(name, seed, stage, fault, seconds):
    seen = history.read(stage.logs)
    found = history.violations(seen, stage.size.lease, may_repeat=fault.may_lose)
    with stage.open() as frontier:
        stats = frontier.admin.stats()
        if not stats.conserved:
            found.append(f"accepted requests are not conserved: {stats}")
        found += [f"dead letter: {letter.url} {letter.reason}" for letter in frontier.admin.dead()]
    items = stage.items()
    times = list(stage.recoveries)
    for moment, worker in stage.marks:
        times += history.recoveries(seen, moment, worker) if worker is not None else history.first_replies(seen, moment)
    return Outcome(
        fault=name,
        seed=seed,
        requests=len(stage.pages),
        lost=len(stage.pages - set(items)),
        repeated=seen.repeated,
        violations=tuple(found),
        short_gaps=tuple(history.gap_violations(stage.site.visits, stage.size.delay)),
        recoveries=tuple(times),
        seconds=seconds,
    )
