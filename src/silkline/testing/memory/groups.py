"""The groups of a crawl in memory: calls that wait until others have ended, and the watches of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from silkline.frontier.transport.command import MAX_BATCH
from silkline.frontier.verbs.groups import CALL_FAILED, CALL_PENDING, NO_CALL, GroupState, Joined
from silkline.testing.memory.entries import Held


@dataclass(slots=True)
class MemoryBatch:
    """A letter for each call of a batch, and whether they count."""

    letters: list[str] = field(default_factory=list)
    joined: bool = False

    def at_least(self, size: int) -> None:
        self.letters += [CALL_PENDING] * (size - len(self.letters))


@dataclass(slots=True)
class MemoryGroup:
    """A call that waits, and the calls that it waits for."""

    waits: Held
    due: int
    until: int
    allow_failure: bool
    closed: bool = False
    batches: dict[str, MemoryBatch] = field(default_factory=dict)

    def join(self, name: str, letters: str) -> None:
        batch = self.batches.setdefault(name, MemoryBatch())
        if not batch.joined:
            batch.at_least(len(letters))
            for place, letter in enumerate(letters):
                batch.letters[place] = batch.letters[place] if letter == CALL_PENDING else letter
            batch.joined = True

    def mark(self, name: str, place: int, outcome: str) -> None:
        batch = self.batches.setdefault(name, MemoryBatch())
        batch.at_least(place + 1)
        if batch.letters[place] == CALL_PENDING:
            batch.letters[place] = outcome

    def state(self, name: str, shift: int) -> GroupState:
        letters = [letter for batch in self.batches.values() if batch.joined for letter in batch.letters]
        return GroupState(
            url=f"https://{name}",
            calls=len(letters) - letters.count(NO_CALL),
            left=letters.count(CALL_PENDING),
            failed=letters.count(CALL_FAILED),
            closed=self.closed,
            allow_failure=self.allow_failure,
            expires=(self.until - shift) / 1000,
        )


@dataclass(slots=True)
class Watch:
    """The groups that wait for one call, or the letters of a batch."""

    until: int = 0
    lines: list[tuple[str, str, int]] = field(default_factory=list)
    """Group, batch and number."""
    letters: list[str] = field(default_factory=list)


class MemoryGroups:
    """All groups and watches of a crawl."""

    def __init__(self) -> None:
        self.groups: dict[str, MemoryGroup] = {}
        self.watches: dict[str, Watch] = {}
        self.watched = 0
        """Time until which calls are watched."""
        self.notes: dict[tuple[str, str, int, str], None] = {}
        """Calls that have ended, until they are reported to their groups."""

    def watch(self, group: str, batch: str, names: Sequence[tuple[str, int]], until: int) -> None:
        """Watch calls, or end these watches if *until* is 0."""
        for name, number in names:
            is_batch = name.endswith("*")
            if is_batch and name in self.watches:
                continue
            watch = self.watches.setdefault(name, Watch())
            line = (group, batch, 0 if is_batch else number)
            watch.lines = [other for other in watch.lines if other != line]
            if until:
                watch.lines.append(line)
                watch.letters = [CALL_PENDING] * number if is_batch else []
                watch.until = max(watch.until, until)
                self.watched = max(self.watched, until)
            if not watch.lines:
                del self.watches[name]

    def note_end(self, name: str, outcome: str) -> None:
        """Note that a call has ended, once for each group that waits for it."""
        if watch := self.watches.pop(name, None):
            self.notes |= dict.fromkeys((*line, outcome) for line in watch.lines)
        beginning, digits = f"{name[:-3]}*", name[-3:]
        batch = self.watches.get(beginning)
        number = int(digits) if digits.isdecimal() else MAX_BATCH
        if batch and number < len(batch.letters) and batch.letters[number] == CALL_PENDING:
            [(group, id_, _)] = batch.lines
            batch.letters[number] = outcome
            self.notes[group, id_, number, outcome] = None
            if CALL_PENDING not in batch.letters:
                del self.watches[beginning]

    def forget_overdue(self, now: int) -> None:
        self.watches = {name: watch for name, watch in self.watches.items() if watch.until > now}

    def join(self, name: str, batch: str, letters: str, following: str) -> Joined:
        """Add calls to a group, and close it; without the consequences for the call that waits."""
        group = self.groups.get(name)
        if group is None:
            return "gone"
        if group.closed:
            return "closed"
        if following == "drop":
            return "dropped"
        if batch:
            group.join(batch, letters)
        group.closed = following == "close"
        return "complete" if self.is_complete(name) else "joined"

    def is_complete(self, name: str) -> bool:
        group = self.groups[name]
        return group.closed and group.state(name, 0).left == 0

    def take_notes(self) -> list[str]:
        """Report all notes to their groups. Returns the groups that are complete now."""
        noted, self.notes = self.notes, {}
        changed: dict[str, None] = {}
        for group, batch, number, outcome in noted:
            if group in self.groups:
                self.groups[group].mark(batch, number, outcome)
                changed[group] = None
        return [name for name in sorted(changed) if self.is_complete(name)]
