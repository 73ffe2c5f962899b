"""Write the reference pages that are read off the source: the keyspace and the scripts. `make docs` runs it."""  # noqa: INP001 - a program, not a package

from __future__ import annotations

import re
from pathlib import Path

from silkline.frontier import keys, script

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "silkline" / "frontier"
SCRIPTS = SOURCE / "scripts"
LINK = "../../src/silkline/frontier"
NOTE = "<!-- Written by docs/generate.py: run `make docs` instead of editing. -->\n\n"


def pages() -> dict[Path, str]:
    """Every generated page, and what it should hold now."""
    return {DOCS / "reference" / "keyspace.md": keyspace(), DOCS / "reference" / "scripts.md": scripts()}


# ── the keyspace ─────────────────────────────────────────────────────────────────────────────────────────────────────
def keyspace() -> str:
    crawl = keys.CrawlKeys("books")
    root = crawl.shard(0).root
    rows = [(f"`{root}:{name}`", *meaning.split(None, 1)) for name, meaning in keys.SHARD_KEYS.items()]
    crawls = next(line for line in header("register") if line.startswith("KEYS[1]")).split("  ", 2)
    mine = [told(crawl, name) for name in ("settings", "workers", "infos", "orders", "history", "audit")]
    inbox = [told(keys.InboxKeys("shop:start_urls"), name) for name in ("taken", "messages", "refused")]
    return (
        "# The keyspace\n\n"
        + NOTE
        + f"All keys start with `silkline:`. [`keys.py`]({LINK}/keys.py) is the only place in Python that makes one, and\n"
        + f"[`keys.lua`]({LINK}/scripts/lib/keys.lua) is its twin in the scripts. The examples are those of a crawl named `books`\n"
        + "and its first shard. The braces are a hash tag: a Redis Cluster keeps all keys of one tag in one slot.\n\n"
        + "## Of the server\n\n"
        + table(
            ("key", "type", "holds"),
            [
                (f"`{keys.CRAWLS}`", crawls[1], crawls[2]),
                (f"`{keys.AUDIT}`", "LIST", "of what operators did to crawls that are gone, the newest act first"),
            ],
        )
        + "\n## Of a crawl\n\n"
        + table(("key", "type", "holds"), mine)
        + "\n## Of an inbox\n\nThe messages are in a key of the user's own, here `shop:start_urls`. Beside it is what was taken from it.\n\n"
        + table(("key", "type", "holds"), inbox)
        + "\n## Of a shard\n\nA key exists only while it holds something. The bell is a channel, not a key.\n\n"
        + table(("key", "type", "holds"), rows)
        + "\n## The ledger\n\n"
        + "The fields of `ledger`. Settings are written when the shard is founded; counters are read once and written back once\n"
        + "per call. `epoch` belongs to `allowance`; `set_back` is by how much the server's clock was set back, and when.\n\n"
        + f"- settings: {words('SETTINGS')}\n- counters: {words('COUNTERS')}\n"
        + "\n## What is stored of a request\n\n"
        + f"The record of a request is made by [`codec.py`]({LINK}/codec.py): the path and query of a plain GET, else msgpack with the\n"
        + "defaults left out. Around it the scripts keep, in the words of their source:\n\n"
        + fenced(comment(SCRIPTS / "lib" / "entries.lua"))
    )


def told(of: object, name: str) -> tuple[str, str, str]:
    """A key, its type and what it holds, as its property tells."""
    kind, meaning = (getattr(type(of), name).__doc__ or "").rstrip(".").split(None, 1)
    return f"`{getattr(of, name)}`", kind, meaning.replace("<", "&lt;")


def words(name: str) -> str:
    """The names in a list of ledger.lua."""
    text = (SCRIPTS / "lib" / "ledger.lua").read_text()
    found = re.search(rf"local {name} = \{{(.*?)\}}", text, re.DOTALL)
    return ", ".join(f"`{word}`" for word in re.findall(r'"(\w+)"', found.group(1) if found else ""))


# ── the scripts ──────────────────────────────────────────────────────────────────────────────────────────────────────
def scripts() -> str:
    return (
        "# The scripts\n\n"
        + NOTE
        + f"Every change of state is one of these. Their contract is in [their README]({LINK}/scripts/README.md); the keys are\n"
        + "in [the keyspace](keyspace.md). *allow-oom* scripts run when the server is out of memory, *no-writes* scripts change\n"
        + "nothing. A script that *acts once* answers a repeated call as it did the first time.\n\n"
        + "".join(map(section, script.names()))
        + '## The library\n\nPasted into a script where it says `--- @include "name"`, once.\n\n'
        + table(("name", "what it is"), [library_row(path) for path in sorted((SCRIPTS / "lib").glob("*.lua"))])
    )


def section(name: str) -> str:
    text = (SCRIPTS / f"{name}.lua").read_text()
    loaded = script.load(name)
    summary, contract = "\n".join(header(name)).split("\n\n", 1)
    facts = [
        f"[`{name}.lua`]({LINK}/scripts/{name}.lua)",
        f"sent by {', '.join(f'`{sender}`' for sender in senders(name))}",
        *re.findall(r"^#!lua flags=(\S+)", text),
        *(["acts once"] if loaded.takes_call else []),
        *(["reads the clock"] if loaded.takes_clock else []),
    ]
    return f"## {name}\n\n{summary}\n\n{' · '.join(facts)}\n\n{fenced(contract)}\n"


def senders(name: str) -> list[str]:
    """The functions that make the command."""
    source = "".join(path.read_text() for path in sorted(SOURCE.glob("*.py")))
    functions = re.split(r"^def ", source, flags=re.MULTILINE)[1:]
    return [body.partition("(")[0] for body in functions if f'load("{name}")' in body]


def library_row(path: Path) -> tuple[str, str]:
    first = comment(path).split("\n\n")[0].split("\nNeeds:")[0]
    sentence = re.match(r".*?\.(?=\s|$)", " ".join(first.split()))
    return f"[`{path.stem}`]({LINK}/scripts/lib/{path.name})", sentence.group() if sentence else first


# ── reading and writing ──────────────────────────────────────────────────────────────────────────────────────────────
def header(name: str) -> list[str]:
    return comment(SCRIPTS / f"{name}.lua").splitlines()


def comment(path: Path) -> str:
    """The comment at the top of a file, without its dashes."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#!")]
    end = next(number for number, line in enumerate(lines) if not line.startswith("--") or line.startswith("---"))
    return "\n".join(line.removeprefix("--").removeprefix(" ") for line in lines[:end])


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


def fenced(text: str) -> str:
    return f"```text\n{text}\n```\n"


if __name__ == "__main__":
    for page, content in pages().items():
        page.write_text(content)
