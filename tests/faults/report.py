"""The results of the fault suite as a table, a page of the docs and a picture."""

from __future__ import annotations

import platform
from collections import defaultdict
from pathlib import Path
from statistics import quantiles

from tests.faults.scenes import FAULTS, WORKERS, Size

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "faults.md"
PICTURE = ROOT / "docs" / "images" / "faults.svg"


def is_bad(outcome, *, check_gaps=True):
    """Return whether a run was illegal, or lost what it must not lose. On a busy machine, gaps at the site say little."""
    may_lose = FAULTS[outcome.fault].may_lose
    return bool(outcome.violations or (outcome.short_gaps and check_gaps) or (outcome.lost and not may_lose))


def line_of(outcome):
    text = f"{outcome.fault}, seed {outcome.seed}: {outcome.requests} pages, {outcome.lost} lost, {outcome.repeated} repeated, "
    gaps = " ".join(f"{gap:.3f}" for gap in sorted(outcome.short_gaps)[:5])
    text += (
        f"{len(outcome.short_gaps)} short gaps {gaps}, recovery {spread(outcome.recoveries)}, {outcome.seconds:.1f} s"
    )
    return "\n  ".join([text, *outcome.violations[:5]])


def percentile(times, share):
    if len(times) < 2:
        return times[0] if times else None
    return quantiles(times, n=1000, method="inclusive")[max(0, round(share * 1000) - 1)]


def spread(times):
    return (
        " / ".join(f"{percentile(times, share):.2f}" for share in (0.5, 0.99)) + f" / {max(times):.2f}"
        if times
        else "–"
    )


def grouped(outcomes):
    by_fault = defaultdict(list)
    for outcome in outcomes:
        by_fault[outcome.fault].append(outcome)
    return by_fault


def table_of(outcomes):
    lines = [
        "| fault | runs | requests | lost | repeated | illegal | short gaps | recovery p50 / p99 / max, s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for fault, runs in grouped(outcomes).items():
        times = [seconds for run in runs for seconds in run.recoveries]
        sums = (
            sum(values)
            for values in zip(
                *((r.requests, r.lost, r.repeated, len(r.violations), len(r.short_gaps)) for r in runs), strict=True
            )
        )
        requests, lost, repeated, illegal, gaps = sums
        lines.append(
            f"| {fault} | {len(runs)} | {requests:,} | {lost} | {repeated} | {illegal} | {gaps} | {spread(times)} |"
        )
    return "\n".join(lines)


def meanings():
    lines = ["| fault | what happens |", "|---|---|"]
    return "\n".join(
        [*lines, *(f"| {name} | {' '.join(fault.happen.__doc__.split())} |" for name, fault in FAULTS.items())]
    )


def picture_of(outcomes):
    """Return an SVG with the recovery times of each fault as dots on a line of seconds."""
    rows = [(fault, [t for run in runs for t in run.recoveries]) for fault, runs in grouped(outcomes).items()]
    rows = [(fault, times) for fault, times in rows if times]
    longest = max((max(times) for _, times in rows), default=1.0)
    left, width, height = 270, 560, 26
    scale = width / (longest * 1.05)
    bottom = 30 + height * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {bottom + 40}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    step = next(step for step in (0.5, 1, 2, 5, 10, 20, 60) if longest / step <= 8 or step == 60)
    for number in range(int(longest / step) + 1):
        x = left + number * step * scale
        parts.append(f'<line x1="{x:.1f}" y1="20" x2="{x:.1f}" y2="{bottom}" stroke="#e2e5e9"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555">{number * step:g} s</text>')
    for number, (fault, times) in enumerate(rows):
        y = 20 + height * number + height / 2
        parts.append(f'<text x="{left - 12}" y="{y + 4:.1f}" text-anchor="end" fill="#222">{fault}</text>')
        parts += [
            f'<circle cx="{left + seconds * scale:.1f}" cy="{y:.1f}" r="4" fill="#0b6bcb" fill-opacity="0.35"/>'
            for seconds in sorted(times)
        ]
    return "\n".join([*parts, "</svg>", ""])


def write(outcomes):
    size, seeds = Size(), sorted({outcome.seed for outcome in outcomes})
    PICTURE.write_text(picture_of(outcomes))
    PAGE.write_text(f"""# Faults

What happens to a crawl when something fails. This page is written by `make faults`, which runs each fault in the middle of a
crawl with real processes and checks what every worker has seen.

Each run crawls {size.hosts * size.pages} pages of {size.hosts} hosts on a local site with {WORKERS} worker processes: a delay of
{size.delay:g} s and at most {size.cap} pages at a time per host, leases of {size.lease:g} s. Every worker logs each lease and each verdict
that the frontier accepted, and the site logs each request. Seeds {seeds[0]} to {seeds[-1]}, {platform.system()}, {platform.machine()}.

{table_of(outcomes)}

- *lost*: pages of the site without an item at the end.
- *repeated*: pages that were completed twice. Sinks recognize their items by their keys.
- *illegal*: pages that were handed out after they were completed, verdicts that were accepted from a worker whose page another one had
  claimed, leases that were handed on before they had expired, counts that do not add up, and dead letters.
- *short gaps*: two requests to a host with less than 90 % of the delay between them, as the site saw them.
- *recovery*: for a lost worker, the seconds until each page that it held was handed out again; for a terminated one, the seconds until it
  had left; for a fault of the server or the network, the seconds from its end until each worker got its next reply.

![Recovery times](../images/faults.svg)

{meanings()}

A server process that is killed loses nothing that it has given to the operating system. A machine without power, or a replica that lags
when it takes over, may lack the last second: the line *server loses its last writes*. Clients notice it and send recent requests again. Pages
that were completed in that time are fetched again.

Other faults are covered by tests of their own: lost primaries and moved slots (tests/servers_matrix), clocks that are set back
(tests/contract/test_clock.py), several versions at the same time (tests/chaos/test_rolling_upgrade.py), and hostile sites
(tests/worker).
""")
