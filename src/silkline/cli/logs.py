"""Log lines on stderr, above the live display if there is one."""

from __future__ import annotations

import logging
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.text import Text

from silkline.cli import screen

Level = Literal["debug", "info", "warning", "error"]
LogLevel = Annotated[Level, Parameter(name="--log-level", help="Verbosity of the log on stderr.")]
_COLOURS = {logging.DEBUG: "dim", logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "bold red"}


class _ScreenHandler(logging.Handler):
    """Prints through `screen`, so that log lines and a live display do not overwrite each other."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            style = _COLOURS.get(record.levelno, "")
            screen.err.print(Text(screen.printable(self.format(record)), style), soft_wrap=True)
        except Exception:  # noqa: BLE001 - as the handlers of the standard library do
            self.handleError(record)


class _OneEntry(logging.Formatter):
    """Indents all lines after the first, so that text from a site cannot look like a log entry."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\r", "").rstrip("\n").replace("\n", "\n    ")


def log_to_screen(level: Level, *, who: str = "") -> None:
    """Print the log of Silkline and of the user's code; *who* identifies the process."""
    handler = _ScreenHandler()
    handler.setFormatter(_OneEntry(f"%(asctime)s {who}%(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
