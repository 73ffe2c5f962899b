"""Run crawls with faults: ``python -m tests.faults [--seed N] [--rounds N] [--only FAULT …] [--write]``.

Prints a table; ``--write`` writes docs/reference/faults.md and its picture, too. The exit code is 1 if a run lost a page that it must
not lose, or was illegal.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults import report
from tests.faults.scenes import FAULTS, SHORT, Outcome, Size, run


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Run crawls during which faults happen."
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each fault")
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="FAULT", help="only these faults")
    parser.add_argument("--short", action="store_true", help="a smaller site, and leases of two seconds")
    parser.add_argument("--write", action="store_true", help="write docs/reference/faults.md and its picture")
    asked = parser.parse_args()
    outcomes = []
    for number in range(asked.rounds):
        for name in asked.only or FAULTS:
            began = time.monotonic()
            try:
                outcome = run(name, asked.seed + number, SHORT if asked.short else Size())
            except Exception as error:  # noqa: BLE001 - a run that gets stuck is a result
                outcome = Outcome(name, asked.seed + number, 0, 0, 0, (str(error),), (), (), time.monotonic() - began)
            outcomes.append(outcome)
            print(report.line_of(outcome), flush=True)
    print(report.table_of(outcomes))
    if asked.write:
        report.write(outcomes)
    sys.exit(any(report.is_bad(outcome) for outcome in outcomes))


if __name__ == "__main__":
    main()
