"""Durability by choice: which calls of a crawl return only after their writes are on disk, or on a replica.

WAIT and WAITAOF cover the writes of their own connection. So they are sent on the connection that runs the script, right behind
it: after a failover, another connection could lead to a server that never had the write. A call that is repeated writes nothing,
therefore a small write comes first (mark_write.lua).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from silkline.errors import ConfigError
from silkline.frontier.store.settings import Durability
from silkline.frontier.transport.command import load
from silkline.frontier.transport.redis_errors import NotDurable
from silkline.frontier.transport.server_info import Server

WAIT_MS = 2000
"""Milliseconds to wait for the disk or a replica. A slow disk may delay the fsync of every second that long."""
CONFIRMED = frozenset(
    {
        *("create", "init_shard", "set_crawl_field", "set_state", "discard", "restore", "recount"),
        *("enqueue", "tick", "mark_seen", "forget"),
        *("settle", "hand_over", "feed_position", "session_state"),
        *("add_dead", "revive", "drop", "promote"),
        *("open_group", "join_group", "watch", "report_ended", "take_ended"),
        *("set_host", "set_limits", "set_politeness", "set_dead_limit", "replace_settings", "run_options"),
    }
)
"""Scripts whose reply says that something is stored or ended. The others lease, count or report: what they lose is done again."""

_OLDEST: dict[str, dict[str, tuple[int, ...]]] = {
    "always": {"Redis": (7, 2), "Valkey": (7, 2)},
    "replicated": {"Redis": (6, 2), "Valkey": (7, 2)},
}
_WORDS = {"always": "on disk", "replicated": "on a replica"}


class WriteConfirmation(NamedTuple):
    """What is sent behind a script, so that its reply counts only after its writes are durable."""

    mode: Durability
    commands: tuple[tuple[str, ...], tuple[str, ...]]
    """A small write, and the command that waits."""

    @classmethod
    def of(cls, mode: Durability, key: str, *, legacy: bool) -> WriteConfirmation:
        """Return the commands for the node that holds *key*."""
        script = load("mark_write")
        mark = ("EVAL", script.legacy_source if legacy else script.source, "1", f"{key}:mark")
        return cls(mode, (mark, (*_wait(mode), str(WAIT_MS))))

    def fault(self, marked: Any, confirmed: Any) -> Exception | None:
        """Return the error if the replies do not confirm that the writes are durable."""
        if isinstance(marked, Exception):
            return NotDurable("refused the write that confirms others")
        if isinstance(confirmed, Exception):
            return NotDurable(f"cannot confirm a write (durability {self.mode}): {confirmed}")
        if (confirmed[0] if self.mode == "always" else confirmed) >= 1:
            return None
        return NotDurable(f"has a write that was not {_WORDS[self.mode]} within {WAIT_MS / 1000:g} s")


def _wait(mode: Durability) -> tuple[str, ...]:
    return ("WAITAOF", "1", "0") if mode == "always" else ("WAIT", "1")


def crawl_of(key: str) -> str:
    """Return the name of the crawl to which a key belongs; "" if it belongs to none."""
    return key.partition("{")[2].partition("}")[0].partition(":")[0] if key.startswith("silkline:{") else ""


def probe(mode: Durability) -> tuple[str, ...]:
    """Return a command that fails if the server or the user cannot do what *mode* needs. It does not wait."""
    return ("WAITAOF", "1", "0", "1") if mode == "always" else ("WAIT", "0", "1")


def check_version(mode: Durability, server: Server, where: str) -> None:
    """Raise `ConfigError` if the server is too old."""
    oldest = _OLDEST[mode].get(server.name, (7, 2))
    if server.version < oldest:
        version, need = (".".join(map(str, numbers)) for numbers in (server.version, oldest))
        raise _cannot(mode, where, f"it is {server.name} {version}, and this needs {need} or later")


def refused(mode: Durability, where: str, error: Exception) -> ConfigError:
    """Return the error for a server that refuses the probe."""
    text = str(error).rstrip(".")
    if "appendonly" in text:
        return _cannot(mode, where, "it has no append-only file: set appendonly yes, or use durability everysec")
    if "permission" in text or "NOPERM" in text:
        command = _wait(mode)[0].lower()
        return _cannot(mode, where, f"its user may not run {command.upper()}: grant +{command}")
    return _cannot(mode, where, text)


def check_node(mode: Durability, where: str, replicas: int, fsync: str | None) -> None:
    """Raise `ConfigError` if a node has no replica, or never writes to the disk by itself. *fsync* is None if it is unknown."""
    if mode == "replicated" and not replicas:
        raise _cannot(mode, where, "it has no replica: connect one, or use durability everysec")
    if mode == "always" and fsync == "no":
        raise _cannot(
            mode, where, "it leaves writing to the system (appendfsync no): set appendfsync everysec or always"
        )


def _cannot(mode: Durability, where: str, why: str) -> ConfigError:
    return ConfigError(f"{where} cannot keep durability {mode!r}: {why}")
