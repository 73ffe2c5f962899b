"""Write the reference pages that are generated from the source: the keyspace and the scripts. `make docs` runs it."""  # noqa: INP001 - a program, not a package

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from silkline.frontier.store import keys
from silkline.frontier.transport.command import load, script_names

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "silkline" / "frontier"
SCRIPTS = SOURCE / "scripts"
LINK = "../../src/silkline/frontier"
NOTE = "<!-- Written by docs/generate.py: run `make docs` instead of editing. -->\n\n"


def pages() -> dict[Path, str]:
    """Return the generated pages with their contents."""
    return {DOCS / "reference" / "keyspace.md": keyspace(), DOCS / "reference" / "scripts.md": scripts()}


# ── the keyspace ─────────────────────────────────────────────────────────────────────────────────────────────────────
def keyspace() -> str:
    crawl = keys.CrawlKeys("books")
    root = crawl.shard(0).root
    rows = [(f"`{root}:{name}`", *meaning.split(None, 1)) for name, meaning in keys.SHARD_KEYS.items()]
    names = (
        "settings",
        "workers",
        "infos",
        "orders",
        "history",
        "audit",
        "locks",
        "lock_ends",
        "proxies",
        "proxy_changes",
        "proxy_tiers",
        "sessions",
        "session_ends",
    )
    mine = [key_row(crawl, name) for name in names]
    inbox = [key_row(keys.InboxKeys("shop:start_urls"), name) for name in ("taken", "messages", "refused")]
    return (
        "# The keyspace\n\n"
        + NOTE
        + f"All keys start with `silkline:`. In Python, only [`keys.py`]({LINK}/store/keys.py) builds keys;\n"
        + f"[`keys.lua`]({LINK}/scripts/lib/keys.lua) does so in the scripts. The examples are those of a crawl named `books` and its first\n"
        + "shard. The braces are a hash tag: a Redis Cluster stores all keys with the same tag in one slot.\n\n"
        + "## Keys of the server\n\n"
        + table(
            ("key", "type", "contents"),
            [
                (f"`{keys.CRAWLS}`", *key_line("register")),
                (f"`{keys.SESSIONS}`", *key_line("end_session")),
                (f"`{keys.AUDIT}`", "LIST", "which crawls operators removed, the newest entry first"),
            ],
        )
        + "\n## Keys of a crawl\n\n"
        + table(("key", "type", "contents"), mine)
        + "\n## Keys of an inbox\n\nThe messages are in a key of the user, here `shop:start_urls`. Messages that were taken are stored beside it.\n\n"
        + table(("key", "type", "contents"), inbox)
        + "\n## Keys of a shard\n\nA key exists only while it has contents. `bell` is a pub/sub channel, not a key.\n\n"
        + table(("key", "type", "contents"), rows)
        + "\n## The ledger\n\n"
        + "These are the fields of `ledger`. Settings are written when the shard is created; counters are read once and written back once\n"
        + "per call. `epoch` belongs to `allowance`. `ahead` is how many milliseconds the shard's clock is ahead of the server's, after\n"
        + "that was set back (`set_back` in earlier versions). `isolate` is the time until which one caller may finish what it holds,\n"
        + "to claim a request with a strike alone. `struck` lists the strikes of expired leases, as `token:token` of the lease that expired and\n"
        + "of the request's last lease; `*` stands for a strike that was withdrawn while the request waits.\n\n"
        + f"- settings: {words('SETTINGS')}\n- counters: {words('COUNTERS')}\n"
        + "\n## How a request is stored\n\n"
        + f"[`record.py`]({LINK}/store/record.py) encodes a request as its record: the path and query of a plain GET, otherwise the path and\n"
        + f"msgpack without default values. Byte strings that many records have in common are shortened, see [`phrases.py`]({LINK}/store/phrases.py)\n"
        + "and [ADR 38](../adr/0038-records-are-shortened-with-a-fixed-table.md). The second at which the request was enqueued is stored in front\n"
        + "of it, see [ADR 51](../adr/0051-a-record-begins-with-its-second.md). The scripts store this around it, in the words of their source:\n\n"
        + fenced(comment(SCRIPTS / "lib" / "entries.lua"))
    )


def key_row(of: object, name: str) -> tuple[str, str, str]:
    """Return a key, its type and its contents, from the docstring of its property."""
    kind, meaning = (getattr(type(of), name).__doc__ or "").rstrip(".").split(None, 1)
    return f"`{getattr(of, name)}`", kind, meaning.replace("<", "&lt;")


def key_line(script: str) -> list[str]:
    """Return the type and the contents of the key of a script, from its header."""
    return next(line for line in header(script) if line.startswith("KEYS[1]")).split("  ", 2)[1:]


def words(name: str) -> str:
    """Return the names in a list of ledger.lua."""
    text = (SCRIPTS / "lib" / "ledger.lua").read_text()
    found = re.search(rf"local {name} = \{{(.*?)\}}", text, re.DOTALL)
    return ", ".join(f"`{word}`" for word in re.findall(r'"(\w+)"', found.group(1) if found else ""))


# ── the scripts ──────────────────────────────────────────────────────────────────────────────────────────────────────
def scripts() -> str:
    return (
        "# The scripts\n\n"
        + NOTE
        + f"Every change of state is one of these scripts. [Their README]({LINK}/scripts/README.md) describes the contract, and [the\n"
        + "keyspace](keyspace.md) the keys. *allow-oom* scripts also run when the server is out of memory; *no-writes* scripts change\n"
        + "nothing. If a call is repeated, a script that *acts once* returns its first reply and changes nothing.\n\n"
        + "".join(map(section, script_names()))
        + '## The library\n\nThe loader replaces `--- @include "name"` with the text of the file, once per script. Then it removes the functions, keys and\n'
        + "fields of the ledger that the script does not use.\n\n"
        + table(("name", "contents"), [library_row(path) for path in sorted((SCRIPTS / "lib").glob("*.lua"))])
    )


def section(name: str) -> str:
    path = path_of(name)
    text = path.read_text()
    loaded = load(name)
    summary, contract = "\n".join(header(name)).split("\n\n", 1)
    facts = [
        f"[`{name}.lua`]({LINK}/scripts/{path.parent.name}/{name}.lua)",
        f"sent by {', '.join(f'`{sender}`' for sender in senders(name))}",
        *re.findall(r"^#!lua flags=(\S+)", text),
        *(["acts once"] if loaded.takes_call else []),
        *(["reads the clock"] if loaded.takes_clock else []),
    ]
    return f"## {name}\n\n{summary}\n\n{' · '.join(facts)}\n\n{fenced(contract)}\n"


def senders(name: str) -> list[str]:
    """Return the functions that make the command."""
    return [body.partition("(")[0] for body in functions() if f'load("{name}")' in body]


@cache
def functions() -> list[str]:
    """Return the source of every function of the package."""
    source = "".join(path.read_text() for path in sorted(SOURCE.rglob("*.py")))
    return re.split(r"^def ", source, flags=re.MULTILINE)[1:]


def library_row(path: Path) -> tuple[str, str]:
    first = comment(path).split("\n\n")[0].split("\nNeeds:")[0]
    sentence = re.match(r".*?\.(?=\s|$)", " ".join(first.split()))
    return f"[`{path.stem}`]({LINK}/scripts/lib/{path.name})", sentence.group() if sentence else first


# ── reading and writing ──────────────────────────────────────────────────────────────────────────────────────────────
def header(name: str) -> list[str]:
    return comment(path_of(name)).splitlines()


def path_of(name: str) -> Path:
    """Return the file of a script, in the folder of its topic."""
    [path] = [path for path in SCRIPTS.glob(f"*/{name}.lua") if path.parent.name != "lib"]
    return path


def comment(path: Path) -> str:
    """Return the comment at the top of a file, without its dashes."""
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
