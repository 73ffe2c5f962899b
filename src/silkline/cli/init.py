"""``silkline init``: write a crawl to begin with."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.core.errors import ConfigError, InvalidUrl
from silkline.core.url import parse

_URL, _NAME, _FILE = '"https://books.toscrape.com/"', '"crawl",', "crawl.py"


def init(
    file: Path = Path("crawl.py"),
    /,
    *,
    url: str = "https://books.toscrape.com/",
    force: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Write a crawl to begin with.

    A Python file with comments that runs as it is: it takes the titles of
    up to 100 pages of a site.

    Examples:
      silkline init
      silkline init shop.py --url https://shop.example/

    Exit code: 0, 2 wrong usage or the file is there.

    Parameters
    ----------
    file
        The file to write.
    url
        Where the crawl starts.
    force
        Overwrite a file that is there.
    """
    text = starter(file.name, url)
    try:
        with file.open("w" if force else "x") as target:
            target.write(text)
    except FileExistsError:
        raise ConfigError(f"{file} is there already; --force overwrites it") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    screen.show(f"Wrote {escape(str(file))}. Run it: silkline run {escape(str(file))} -o pages.jsonl")
    return Exit.OK


def starter(name: str, url: str) -> str:
    """The starter file as it is called *name*, for the site at *url*."""
    if not name.endswith(".py"):
        raise ConfigError(f"a crawl is a Python file, so its name ends in .py; got {name!r}")
    try:
        parse(url)
    except InvalidUrl as error:
        raise ConfigError(f"--url {url}: {error}") from None
    crawl = re.sub(r"[^A-Za-z0-9_.-]+", "-", name.removesuffix(".py")).strip("-._")[:64] or "crawl"
    text = (files("silkline.cli.templates") / "starter.py").read_text()
    return text.replace(_URL, _quoted(url)).replace(_NAME, f'"{crawl}",').replace(_FILE, name)


def _quoted(text: str) -> str:
    """As a Python literal, in double quotes where it can be."""
    return repr(text) if '"' in text or "\\" in text or not text.isprintable() else f'"{text}"'
