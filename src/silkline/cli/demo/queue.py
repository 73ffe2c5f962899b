"""``silkline demo --queue``: four workers drain a crawl, one is killed half-way, and nothing is lost. Nothing is fetched."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from silkline.cli import screen
from silkline.cli.demo.queue_fleet import Fleet
from silkline.cli.demo.queue_proof import Proof, prove
from silkline.cli.demo.queue_screen import Show
from silkline.cli.demo.queue_worker import LEASE
from silkline.core.errors import StoreUnavailable
from silkline.core.politeness import Politeness
from silkline.frontier.inspection import Stats
from silkline.frontier.sync import SyncFrontier

BATCH = 1000
LOOK_EVERY = 0.2
STALLED_AFTER = 60.0


class Plan(msgspec.Struct, frozen=True):
    """What the demo does."""

    urls: int
    hosts: int
    workers: int
    delay: float

    def url(self, number: int) -> str:
        return f"https://shop-{number % self.hosts}.example/article/{number}"


def demo_queue(plan: Plan, home: Path, *, json: bool) -> bool:
    """Play it in *home*; answers whether nothing was lost."""
    proof = _run(plan, home, Show(plan.urls, screen.err if json else screen.out))
    if json:
        screen.tell_json(msgspec.to_builtins(proof) | {"sound": proof.sound})
    return proof.sound


def _run(plan: Plan, home: Path, show: Show) -> Proof:
    """The story: fill, work, kill, come back, prove."""
    name = time.strftime("demo-%Y%m%d-%H%M%S")
    server = f"embedded:{home}"
    pace = Politeness(delay=plan.delay, concurrency=2)
    with SyncFrontier.open(server, crawl=name, politeness=pace, capacity=max(plan.urls, 1)) as frontier:
        folder = home / name
        folder.mkdir()
        show.title(plan.hosts, plan.workers, plan.delay)
        with show:
            _fill(plan, frontier, show)
            with Fleet(server, name, plan.workers, folder) as fleet:
                show.crawl(plan.workers)
                stats = _watch(plan, frontier, fleet, show)
        proof = prove((plan.url(i) for i in range(plan.urls)), fleet.journals(), fleet.killed, stats, plan.delay)
    show.summary(proof, fleet, stats)
    return proof


def _fill(plan: Plan, frontier: SyncFrontier, show: Show) -> None:
    started = time.monotonic()
    for start in range(0, plan.urls, BATCH):
        frontier.enqueue([plan.url(i) for i in range(start, min(start + BATCH, plan.urls))])
        show.filled(min(start + BATCH, plan.urls))
    show.event(f"enqueued {plan.urls:,} URLs in {time.monotonic() - started:.1f} s")


def _watch(plan: Plan, frontier: SyncFrontier, fleet: Fleet, show: Show) -> Stats:
    """Look on until nothing is left, and kill one worker half-way."""
    rescued = moved = 0
    last = time.monotonic()
    while True:
        stats = frontier.stats()
        show.progress(stats)
        if stats.done > moved:
            moved, last = stats.done, time.monotonic()
        if fleet.killed is None and stats.done >= plan.urls // 2:
            _kill(fleet, show)
        if stats.rescued > rescued:
            show.event(f"[bold green]{stats.rescued - rescued} of its requests are back in their queues[/]")
            rescued = stats.rescued
        if not fleet.check():
            return frontier.stats()
        if time.monotonic() - last > STALLED_AFTER:
            raise StoreUnavailable(f"nothing has moved for {STALLED_AFTER:.0f} s; giving up")
        time.sleep(LOOK_EVERY)


def _kill(fleet: Fleet, show: Show) -> None:
    held = fleet.kill_one()
    assert fleet.killed is not None
    show.event(
        f"[bold red]SIGKILL to worker {fleet.killed + 1}[/], which held {held} leases; they expire in {LEASE:g} s"
    )
