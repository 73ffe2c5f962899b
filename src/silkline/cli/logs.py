"""Log lines on stderr, above the live display if there is one."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from silkline.cli import screen
from silkline.core.url import mask_passwords

Level = Literal["debug", "info", "warning", "error"]
LogLevel = Annotated[Level, Parameter(name="--log-level", help="Verbosity of the log on stderr.")]
LogJson = Annotated[
    bool,
    Parameter(
        name="--log-json",
        env_var="SILKLINE_LOG_JSON",
        negative=(),
        show_default=False,
        help="Write the log on stderr as JSON, one object per line.",
    ),
]
INDENT = 4
_COLORS = {logging.DEBUG: "dim", logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "bold red"}


class _ScreenHandler(logging.Handler):
    """Prints through `screen`, so that log lines and a live display do not overwrite each other."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            style = _COLORS.get(record.levelno, "")
            screen.print_line(Text(screen.printable(self.format(record)), style), screen.err, indent=INDENT)
        except Exception:  # noqa: BLE001 - as the handlers of the standard library do
            self.handleError(record)


class _OneEntry(logging.Formatter):
    """Indents all lines after the first, so that text from a site cannot look like a log entry."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\r", "").rstrip("\n").replace("\n", "\n" + " " * INDENT)


class _JsonHandler(logging.Handler):
    """Writes one JSON object per line: the record, and the fields that a program passes as `extra`."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__()
        self._fields = fields

    def emit(self, record: logging.LogRecord) -> None:
        try:
            with suppress(BrokenPipeError):
                sys.stderr.write(screen.as_json(self._entry(record)) + "\n")
                sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as the handlers of the standard library do
            self.handleError(record)

    def _entry(self, record: logging.LogRecord) -> dict[str, Any]:
        entry = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_passwords(record.getMessage()),
            "pid": os.getpid(),
            **self._fields,
        }
        if url := _url_in(record):
            entry["url"] = mask_passwords(url)
        if record.exc_info:
            entry["exception"] = mask_passwords(_plain.formatException(record.exc_info))
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD and name not in entry}
        return entry | {name: _simple(value) for name, value in extra.items()}


def _url_in(record: logging.LogRecord) -> str | None:
    """Return the page that a message is about: the first of its arguments that is a URL."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return next((one for one in arguments if isinstance(one, str) and one.startswith(("http://", "https://"))), None)


_plain = logging.Formatter()
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime"}
_NUMBERS = (int, float, bool, type(None))


def _simple(value: object) -> object:
    return value if isinstance(value, _NUMBERS) else mask_passwords(str(value))


def log_to_screen(level: Level, *, who: str = "", as_json: bool = False, crawl: str | None = None) -> None:
    """Print the log of Silkline and of the user's code; *who* identifies the process.

    With *as_json*, remarks of the command are part of the log too, and each entry has the name of the *crawl*, if it is known.
    """
    handler: logging.Handler = _ScreenHandler()
    handler.setFormatter(_OneEntry(f"%(asctime)s {who}%(message)s", "%H:%M:%S"))
    if as_json:
        handler = _JsonHandler({} if crawl is None else {"crawl": crawl})
        screen.log_remarks(lambda at, text: handler.handle(_remark(at, text)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)


def _remark(level: int, text: str) -> logging.LogRecord:
    return logging.LogRecord("silkline.cli", level, "", 0, text, None, None)
