"""What the demo prints at its start and end."""

from __future__ import annotations

from rich.console import Console

from silkline.cli import screen
from silkline.cli.demo.shop_proof import KindCounts, ShopProof
from silkline.cli.run.pulse import clock
from silkline.core.units import format_bytes
from silkline.testing.site import Shop
from silkline.worker.process.summary import Summary

SHOWN = 5
LABELS = {"missing": "missing", "twice": "duplicate", "wrong": "wrong title or price", "strange": "not from the shop"}


def show_title(shop: Shop, hosts: int, workers: int, delay: float, console: Console) -> None:
    console.print(
        f"[bold]A shop of {shop.pages:,} pages on this machine, {workers} workers, one of them killed halfway[/]"
    )
    console.print(
        f"{shop.listings:,} listings and {shop.products:,} products on {hosts} loopback addresses; some are slow, "
        "reply 429 or 500 at first, or redirect, and a calendar never ends.",
    )
    console.print(
        f"Politeness: {delay:g} s between two requests to a host and 2 at a time, for all workers together. "
        "The default for real sites is 1 s and 1 at a time.",
    )
    console.print()


def show_proof(proof: ShopProof, summary: Summary, delay: float, console: Console) -> None:
    console.print(screen.pairs(_rows(proof, summary, delay)))
    console.print()
    table = screen.listing("pages", "served", "stored", "missing", "duplicate")
    for row in proof.rows:
        table.add_row(*_cells(row))
    table.add_row(*(f"[bold]{cell}[/]" for cell in _cells(_total(proof))))
    console.print(table)
    console.print()
    for name, label in LABELS.items():
        skus = getattr(proof, name)
        if skus:
            console.print(f"[red]{label}: {', '.join(skus[:SHOWN])}{', …' if len(skus) > SHOWN else ''}[/]")
    for group in summary.dead_letters:
        console.print(f"[red]dead: {group.count} times {group.reason}, such as {group.example}[/]", markup=True)
    console.print(_verdict(proof))


def _rows(proof: ShopProof, summary: Summary, delay: float) -> list[tuple[str, str]]:
    statuses = ", ".join(f"{status}: {count:,}" for status, count in summary.statuses.items())
    workers = f"{summary.workers}, {summary.restarts} killed and replaced"
    closest = f"{delay:g} s between two requests; the shortest gap at the web server was {proof.smallest_gap:.2f} s"
    return [
        ("crawled", f"{summary.pages:,} pages in {clock(summary.seconds)}, {format_bytes(summary.bytes)}"),
        ("responses", f"{statuses}; the web server counted {proof.requests:,} requests"),
        (
            "workers",
            f"{workers}; requests rescued: {summary.rescued:,}, pages fetched again: {proof.fetched_again:,}",
        ),
        ("crawler trap", f"left after {proof.trap_pages:,} pages of an endless calendar"),
        ("politeness", f"{closest}; at most {proof.greatest_concurrency} at a time"),
    ]


def _total(proof: ShopProof) -> KindCounts:
    return KindCounts("all products", proof.served, proof.stored, len(proof.missing), len(proof.twice))


def _cells(row: KindCounts) -> list[str]:
    missing, twice = (f"[red]{count:,}[/]" if count else "0" for count in (row.missing, row.twice))
    return [row.kind, f"{row.served:,}", f"{row.stored:,}", missing, twice]


def _verdict(proof: ShopProof) -> str:
    if proof.sound:
        return f"[bold green]{proof.stored:,} of {proof.served:,} items stored: none missing, no duplicates[/]"
    if not proof.killed:
        return "[bold yellow]no worker could be killed while it had pages in progress; the demo shows nothing[/]"
    return "[bold red]the stored items differ from the served ones[/]"
