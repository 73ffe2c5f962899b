"""``silkline run --reload``: start the run again when a file of the user's code changes.

The workers end the pages in progress first, as at Ctrl-C; then this process runs the same command again. So all that the new
file says applies, also its politeness and its start URLs, and no page is lost.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

from silkline.worker.process.fleet import this_python

LOOK_EVERY = 0.3
"""Seconds between two checks of the files. A change counts when two checks in a row find the same: editors write in several steps."""
RELOADED = "--reloaded"
"""Says that a run was started again, so that it is neither --fresh nor --overwrite."""
CHECK = """
import sys
from silkline.errors import SilklineError
from silkline.worker.crawl.loading import load_crawl
try:
    load_crawl(sys.argv[1])
except SilklineError as error:
    sys.exit(str(error))
"""
"""A program that loads a file, and prints what is wrong with it."""


class UserFiles:
    """The file of a crawl and the modules beside and below it that it has imported, as they are now."""

    def __init__(self, file: Path) -> None:
        folder = file.resolve().parent
        paths = {Path(origin) for module in list(sys.modules.values()) if (origin := getattr(module, "__file__", None))}
        beside = {path for path in paths if path.is_relative_to(folder) and "site-packages" not in path.parts}
        self._paths = sorted({file.resolve(), *beside})
        self._used = self.states()

    def states(self) -> list[tuple[int, int]]:
        """Return what changes when one of the files is written, replaced or deleted."""
        return [_state_of(path) for path in self._paths]

    def changed_in(self, states: list[tuple[int, int]]) -> str:
        """Return the name of the first file that differs from those that are used; empty if none does."""
        for path, now, used in zip(self._paths, states, self._used, strict=True):
            if now != used:
                return path.name
        return ""

    def use(self, states: list[tuple[int, int]]) -> None:
        """From now on, compare with these states."""
        self._used = states


def _state_of(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, -1
    return found.st_mtime_ns, found.st_size


@asynccontextmanager
async def reloading(
    files: UserFiles, where: str, restart: Callable[[str], object], say: Callable[[str], object]
) -> AsyncIterator[None]:
    """Call *restart* with the name of the file that has changed. A file with an error is reported with *say*, and not used."""
    task = asyncio.create_task(_watch(files, where, restart, say))
    try:
        yield
    finally:
        task.cancel()


async def _watch(files: UserFiles, where: str, restart: Callable[[str], object], say: Callable[[str], object]) -> None:
    before = files.states()
    while True:
        await asyncio.sleep(LOOK_EVERY)
        now = files.states()
        changed = files.changed_in(now)
        if not changed or now != before:
            before = now
            continue
        fault = await _fault_of(where)
        if files.states() != now:
            continue  # changed again meanwhile
        if not fault:
            restart(changed)
            return
        files.use(now)
        say(f"{changed} has changed, but has an error, so the workers continue with the version before: {fault}")


async def _fault_of(where: str) -> str:
    """Return what is wrong with a file; empty if it can be used."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHECK, where),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, words = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    return words.decode(errors="replace").strip() if process.returncode else ""


def run_again() -> NoReturn:
    """Replace this process by the same command, which continues the crawl."""
    arguments = [word for word in sys.argv[1:] if word != RELOADED]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [*this_python(), *arguments, RELOADED])  # noqa: S606 - the command that runs already
