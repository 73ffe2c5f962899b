"""``silkline init``: write an example crawl."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.core.url import parse
from silkline.errors import ConfigError, InvalidUrl
from silkline.fetch.guard import own_network

_RUN = "silkline run crawl.py -o pages.jsonl"
_PRIVATE = """ --allow-private

Without --allow-private, pages on this machine and in private networks are not fetched."""
_URL, _NAME, _FILE = '"https://books.toscrape.com/"', '"crawl",', "crawl.py"


def init(
    file: Path = Path("crawl.py"),
    /,
    *,
    url: str = "https://books.toscrape.com/",
    force: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Write an example crawl.

    The file is a commented Python program. It stores the titles of up
    to 100 pages of a site.

    Examples:
      silkline init
      silkline init shop.py --url https://shop.example/

    Exit code: 0, 2 wrong usage or the file exists.

    Parameters
    ----------
    file
        The file to write.
    url
        Start URL of the crawl.
    force
        Overwrite an existing file.
    """
    text = starter(file.name, url)
    try:
        with file.open("w" if force else "x") as target:
            target.write(text)
    except FileExistsError:
        raise ConfigError(f"{file} already exists; --force overwrites it") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    flag = " --allow-private" if own_network(url) else ""
    screen.show(f"Wrote {escape(str(file))}. Run it: silkline run {escape(str(file))} -o pages.jsonl{flag}")
    return Exit.OK


def starter(name: str, url: str) -> str:
    """Return the text of the example crawl for the file *name* and the site at *url*."""
    if not name.endswith(".py"):
        raise ConfigError(f"the file name of a crawl must end in .py, got {name!r}")
    try:
        parse(url)
    except InvalidUrl as error:
        raise ConfigError(f"--url {url}: {error}") from None
    crawl = re.sub(r"[^A-Za-z0-9_.-]+", "-", name.removesuffix(".py")).strip("-._")[:64] or "crawl"
    text = (files("silkline.cli.templates") / "starter.py").read_text()
    if own_network(url):
        text = text.replace(_RUN, f"{_RUN}{_PRIVATE}", 1)
    return text.replace(_URL, _quoted(url)).replace(_NAME, f'"{crawl}",').replace(_FILE, name)


def _quoted(text: str) -> str:
    """Return *text* as a Python literal, in double quotes if possible."""
    return repr(text) if '"' in text or "\\" in text or not text.isprintable() else f'"{text}"'
