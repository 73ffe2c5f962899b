"""Which dead letters of a crawl in memory match a filter, and how they are grouped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from silkline.frontier.dead_letters import DeadGroup, largest
from silkline.frontier.filters import DeadFilter, reason_group
from silkline.testing.memory_entries import Letter


def matching(letters: Iterable[Letter], chosen: DeadFilter, newest: int | None = None) -> list[Letter]:
    """The letters that match, newest first; of the *newest* so many, or a few more."""
    looked_at = sorted(letters, key=lambda letter: (letter.buried, letter.token), reverse=True)
    if newest is not None:
        where = replace(chosen, reason=None, status=None)
        looked_at = [letter for letter in looked_at if _matches(letter, where)][:newest]
    return [letter for letter in looked_at if _matches(letter, chosen)]


def grouped(letters: Iterable[Letter], chosen: DeadFilter, by: str, limit: int) -> list[DeadGroup]:
    """The largest groups of the letters that match."""
    found = matching(letters, chosen)
    names = (reason_group(letter.reason) if by == "reason" else letter.entry.host for letter in found)
    return largest(Counter(names), limit, len(found))


def _matches(letter: Letter, chosen: DeadFilter) -> bool:
    return (
        (chosen.host is None or letter.entry.host == chosen.host)
        and (chosen.reason is None or _is_reason(letter.reason, chosen.reason.lower()))
        and (chosen.status is None or letter.status == chosen.status)
        and (chosen.id is None or chosen.id == f"0-{letter.token}")
        and (chosen.before is None or letter.buried <= round(chosen.before * 1000))
        and (chosen.after is None or letter.buried >= round(chosen.after * 1000))
    )


def _is_reason(reason: str, part: str) -> bool:
    return part in reason.lower() or part in reason_group(reason).lower()
