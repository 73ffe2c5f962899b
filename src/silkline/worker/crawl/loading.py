"""Loading: returns the `Crawl` that ``books.py:crawl`` names, or raises an error that explains what is wrong with the file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from silkline.errors import ConfigError, SilklineError
from silkline.tasks.app import Tasks
from silkline.worker.crawl.crawl import Crawl


def load_crawl(where: str, *, or_tasks: bool = False) -> Crawl:
    """Return the crawl of a file. If there are several, ``FILE:NAME`` selects one, by its variable or by its own name.

    With *or_tasks*, it may be `Tasks`: then the crawl has only these tasks.
    """
    path, name = split(where)
    module = _load(path)
    crawls = {key: value for key, value in vars(module).items() if isinstance(value, Crawl | Tasks)}
    distinct = {id(crawl): crawl for crawl in crawls.values()}
    if name is None and len(distinct) == 1:
        chosen = next(iter(distinct.values()))
    elif name in crawls:
        chosen = crawls[name]
    else:
        named = [crawl for crawl in distinct.values() if crawl.name == name]
        if not named:
            raise ConfigError(_which(path, name, crawls))
        chosen = named[0]
    if isinstance(chosen, Tasks) and not or_tasks:
        raise ConfigError(f"{where} has tasks and no pages; to run them: silkline worker {where}")
    found = Crawl.of_tasks(chosen) if isinstance(chosen, Tasks) else chosen
    found.check_ready()
    return found


def split(where: str) -> tuple[Path, str | None]:
    """Split ``FILE:NAME``. The path itself may contain a colon."""
    path, mark, name = where.rpartition(":")
    if mark and path and not Path(where).exists():
        return Path(path), name
    return Path(where), None


def _which(path: Path, name: str | None, crawls: Mapping[str, Crawl | Tasks]) -> str:
    if not crawls:
        return f"{path} defines no crawl and no tasks; write: crawl = Crawl('name', start=[…]), or see: silkline init"
    known = ", ".join(sorted(crawls))
    if name is None:
        return f"{path} defines several crawls ({known}); name one: {path}:{min(crawls)}"
    return f"{path} has no crawl named {name!r}; it has {known}"


def _load(path: Path) -> ModuleType:
    if path.is_dir():
        raise ConfigError(f"{path} is a directory; name the Python file that defines the crawl")
    if not path.is_file():
        hint = f"; to write one: silkline init {path}" if path.suffix == ".py" else ""
        raise ConfigError(f"there is no file {path}{hint}")
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickles look themselves up there
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python FILE` has it
    try:
        spec.loader.exec_module(module)
    except SilklineError as error:
        raise ConfigError(f"{_place(path, error)}: {error}") from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{_place(path, error)}: {type(error).__name__}: {error}") from error
    return module


def _place(path: Path, error: BaseException) -> str:
    """Return the line of the file that raised the error."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    own = path.resolve()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == own]
    return f"{path}, line {lines[-1]}" if lines else str(path)
