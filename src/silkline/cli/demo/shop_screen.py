"""What the demo of the shop says at its beginning and at its end."""

from __future__ import annotations

from rich.console import Console

from silkline.cli import screen
from silkline.cli.demo.shop_proof import Row, ShopProof
from silkline.cli.run_pulse import clock, in_bytes
from silkline.testing.site import Shop
from silkline.worker.summary import Summary

SHOWN = 5


def show_title(shop: Shop, hosts: int, workers: int, delay: float, console: Console) -> None:
    console.print(f"[bold]A shop of {shop.pages:,} pages on this machine, {workers} workers, one killed half-way[/]")
    console.print(
        f"{shop.listings:,} listings and {shop.products:,} products on {hosts} loopback addresses; some are slow, "
        "answer 429 or 500 at first, or redirect, and a calendar goes on for ever.",
    )
    console.print(
        f"Politeness: {delay:g} s between two requests to a host and 2 at a time, for all workers together. "
        "On the web it would be 1 s and 1 unless you say otherwise.",
    )
    console.print()


def show_proof(proof: ShopProof, summary: Summary, delay: float, console: Console) -> None:
    console.print(screen.pairs(_course(proof, summary, delay)))
    console.print()
    table = screen.listing("what was served", "served", "stored", "missing", "twice")
    for row in proof.rows:
        table.add_row(*_cells(row))
    table.add_section()
    table.add_row(*_cells(_total(proof)), style="bold")
    console.print(table)
    console.print()
    for name in ("missing", "twice", "wrong", "strange"):
        skus = getattr(proof, name)
        if skus:
            console.print(f"[red]{name}: {', '.join(skus[:SHOWN])}{', …' if len(skus) > SHOWN else ''}[/]")
    for group in summary.dead_letters:
        console.print(f"[red]dead: {group.count} times {group.reason}, such as {group.example}[/]", markup=True)
    console.print(_verdict(proof))


def _course(proof: ShopProof, summary: Summary, delay: float) -> list[tuple[str, str]]:
    statuses = ", ".join(f"{status}: {count:,}" for status, count in summary.statuses.items())
    workers = f"{summary.workers}, {summary.restarts} of them killed and started again"
    closest = (
        f"handed out {delay:g} s apart; on their way to the web server two came as close as {proof.smallest_gap:.2f} s"
    )
    return [
        ("crawled", f"{summary.pages:,} pages in {clock(summary.seconds)}, {in_bytes(summary.bytes)}"),
        ("answers", f"{statuses}; {proof.requests:,} requests by the web server's own count"),
        (
            "workers",
            f"{workers}; rescued from it: {summary.rescued:,}, and fetched again: {proof.fetched_again:,}",
        ),
        ("the trap", f"{proof.trap_pages:,} days of an endless calendar, then it was left"),
        ("politeness", f"{closest}; never more than {proof.greatest_concurrency} at a time"),
    ]


def _total(proof: ShopProof) -> Row:
    return Row("all products", proof.served, proof.stored, len(proof.missing), len(proof.twice))


def _cells(row: Row) -> list[str]:
    missing, twice = (f"[red]{count:,}[/]" if count else "0" for count in (row.missing, row.twice))
    return [row.kind, f"{row.served:,}", f"{row.stored:,}", missing, twice]


def _verdict(proof: ShopProof) -> str:
    if proof.sound:
        return f"[bold green]{proof.stored:,} of {proof.served:,} items stored: nothing missing, nothing twice[/]"
    if not proof.killed:
        return "[bold yellow]no worker could be killed in the middle of its work; nothing is proved[/]"
    return "[bold red]what was stored is not what was served[/]"
