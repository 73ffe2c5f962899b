"""Filter and group the dead letters of a crawl in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from silkline.frontier.admin_verbs.dead_letters import DeadFilter, DeadGroup, largest, reason_group
from silkline.testing.memory.entries import Letter


def matching(letters: Iterable[Letter], chosen: DeadFilter, newest: int | None = None, *, shift: int) -> list[Letter]:
    """Return the matching letters, newest first; only about the *newest* letters are searched, if given.

    Stored times are *shift* milliseconds later than those of the filter.
    """
    looked_at = sorted(letters, key=lambda letter: (letter.buried, letter.token), reverse=True)
    if newest is not None:
        where = replace(chosen, reason=None, status=None)
        looked_at = [letter for letter in looked_at if _matches(letter, where, shift)][:newest]
    return [letter for letter in looked_at if _matches(letter, chosen, shift)]


def grouped(found: Sequence[Letter], by: str, limit: int) -> list[DeadGroup]:
    """Return the largest groups of letters."""
    names = (
        reason_group(letter.reason, letter.entry.host) if by == "reason" else letter.entry.host for letter in found
    )
    return largest(Counter(names), limit, len(found))


def _matches(letter: Letter, chosen: DeadFilter, shift: int) -> bool:
    return (
        (chosen.host is None or letter.entry.host == chosen.host)
        and (chosen.reason is None or _is_reason(letter, chosen.reason.lower()))
        and (chosen.status is None or letter.status == chosen.status)
        and (chosen.id is None or chosen.id == f"0-{letter.token}")
        and (chosen.before is None or letter.buried - shift <= round(chosen.before * 1000))
        and (chosen.after is None or letter.buried - shift >= round(chosen.after * 1000))
    )


def _is_reason(letter: Letter, part: str) -> bool:
    return part in letter.reason.lower() or part in reason_group(letter.reason, letter.entry.host).lower()
