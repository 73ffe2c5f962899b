"""Run the demo: crawl a shop with slow and failing pages, and kill a worker halfway."""

from __future__ import annotations

import asyncio
import signal
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from silkline.cli import screen
from silkline.cli.demo.shop_proof import ShopProof, prove, read_items
from silkline.cli.demo.shop_screen import show_proof, show_title
from silkline.cli.logs import log_to_screen
from silkline.cli.run.board import RunBoard
from silkline.cli.run.pulse import RunSnapshot
from silkline.cli.run.watch import FleetWatch
from silkline.testing.site import Shop, SiteProcess
from silkline.worker.crawl.loading import load_crawl
from silkline.worker.process.fleet import Fleet, this_python
from silkline.worker.process.run import conclude, enqueue_starts, open_to_run
from silkline.worker.process.summary import RunInfo, Summary

LATENCY = 0.1
"""Latency of every response in seconds, so that pages are in progress when the worker is killed."""
LEASE = 5.0
ENOUGH = 3
"""Pages that the worker must have in progress when it is killed."""
LISTEN_EVERY = 0.005
DEEPER = 10


class ShopPlan(msgspec.Struct, frozen=True):
    """The options of the demo."""

    pages: int
    hosts: int
    workers: int
    delay: float

    @property
    def shop(self) -> Shop:
        return Shop(pages=self.pages)


def demo_shop(plan: ShopPlan, home: Path, *, json: bool) -> bool:
    """Run the demo in the directory *home*; return whether no item is missing or duplicated."""
    console = screen.err if json else screen.out
    log_to_screen("error")
    with SiteProcess(plan.shop, hosts=plan.hosts, latency=LATENCY) as site:
        file = _write_crawl(plan, home, site.hosts)
        show_title(plan.shop, plan.hosts, plan.workers, plan.delay, console)
        story = _Story(plan, file, home, console)
        summary = asyncio.run(story.play())
        visits = site.visits
    proof = prove(
        plan.shop,
        read_items(home / "shop.db"),
        visits,
        finished=summary.finished,
        dead=summary.dead,
        killed=summary.restarts > 0,
    )
    show_proof(proof, summary, plan.delay, console)
    if json:
        screen.print_json(_as_json(proof, summary))
    return proof.sound


def _write_crawl(plan: ShopPlan, home: Path, hosts: list[str]) -> Path:
    """Write the Python file of the crawl, with the addresses of this shop."""
    text = (files("silkline.cli.templates") / "shop.py").read_text()
    settings = {"HOSTS": hosts, "DELAY": plan.delay, "DEPTH": plan.shop.listings + DEEPER}
    lines = [
        next((f"{name} = {value!r}" for name, value in settings.items() if line.startswith(f"{name} = ")), line)
        for line in text.splitlines()
    ]
    file = home / "shop.py"
    file.write_text("\n".join(lines) + "\n")
    return file


class _Story:
    """Runs the crawl and kills one worker halfway."""

    def __init__(self, plan: ShopPlan, file: Path, home: Path, console: Console) -> None:
        self._plan = plan
        self._file = file
        self._server = f"embedded:{home}"
        self._out = f"sqlite:///{home / 'shop.db'}"
        self._board = RunBoard("demo", console=console)
        command = [
            *this_python(),
            "worker",
            str(file),
            "--out",
            self._out,
            "--lease",
            str(LEASE),
            "--log-level",
            "error",
        ]
        self._fleet = Fleet(command, plan.workers, environment={"SILKLINE_REDIS": self._server})
        self._killing: asyncio.Task[None] | None = None

    async def play(self) -> Summary:
        crawl = load_crawl(str(self._file))
        frontier, *_ = await open_to_run(crawl, self._server, fresh=True)
        async with frontier:
            await enqueue_starts(crawl, frontier)
            watch = FleetWatch(frontier, self._fleet, self._board)
            await watch.run(self._on_look)
            if self._killing:
                self._killing.cancel()
            if watch.stop_signal:
                raise KeyboardInterrupt
            run_info = RunInfo(seconds=watch.elapsed, workers=self._plan.workers, restarts=self._fleet.restarts)
            return await conclude(crawl, frontier, self._fleet.counters, run_info, [self._out])

    def _on_look(self, look: RunSnapshot) -> None:
        """Kill a worker when half of the pages are done."""
        if self._killing is None and look.stats.done >= self._plan.pages // 2:
            self._killing = asyncio.create_task(self._kill(look.stats.done))

    async def _kill(self, done: int) -> None:
        """Wait until a worker reports enough pages in progress, and kill it."""
        before = {member.number: member.report for member in self._fleet.members}
        while True:
            for member in self._fleet.members:
                report, process = member.report, member.process
                if report and process and report is not before[member.number] and report.in_flight >= ENOUGH:
                    self._board.say(
                        f"[bold red]SIGKILL to worker {member.number}[/] after {done:,} pages, with {report.in_flight} "
                        "pages in progress: it is replaced, and its pages are rescued"
                    )
                    process.send_signal(signal.SIGKILL)
                    return
                before[member.number] = report
            await asyncio.sleep(LISTEN_EVERY)


def _as_json(proof: ShopProof, summary: Summary) -> dict[str, Any]:
    numbers = {"served": proof.served, "stored": proof.stored, "sound": proof.sound}
    found: dict[str, Any] = msgspec.to_builtins(proof)
    return found | numbers | {"summary": msgspec.to_builtins(summary)}
