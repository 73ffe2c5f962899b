"""What workers have to say on the way: lines on stderr, above the live display if there is one."""

from __future__ import annotations

import logging
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.text import Text

from silkline.cli import screen

Level = Literal["debug", "info", "warning", "error"]
LogLevel = Annotated[Level, Parameter(name="--log-level", help="How much is said on stderr.")]
_COLOURS = {logging.DEBUG: "dim", logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "bold red"}


class _ScreenHandler(logging.Handler):
    """Prints through `screen`, which knows how to keep clear of a live display."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            style = _COLOURS.get(record.levelno, "")
            screen.err.print(Text(screen.printable(self.format(record)), style), soft_wrap=True)
        except Exception:  # noqa: BLE001 - as the handlers of the standard library do
            self.handleError(record)


def log_to_screen(level: Level, *, who: str = "") -> None:
    """Say what Silkline and the user's own code log; *who* tells processes apart."""
    handler = _ScreenHandler()
    handler.setFormatter(logging.Formatter(f"%(asctime)s {who}%(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
