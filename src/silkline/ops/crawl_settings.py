"""New settings of an existing crawl: parse them, compare them with the stored ones, and describe the changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from silkline.core.politeness import Budget, Politeness
from silkline.errors import ConfigError
from silkline.frontier.store.run_options import RunOptions
from silkline.frontier.store.settings import Settings, check_capacity, check_dead_limit
from silkline.ops.parsing import seconds, whole

NONE = "none"
PACE = ("delay", "concurrency", "burst")
LIMITS = {"max_pages": "pages", "max_pages_per_host": "pages_per_host", "max_depth": "depth"}
DEAD_LIMIT = "dead_limit"
MAY_BE_NONE = (*LIMITS, DEAD_LIMIT)
WORDS = ("delay", "concurrency", "burst", *LIMITS, "capacity", DEAD_LIMIT)
"""Settings that can be changed, by option name."""


class SettingChange(NamedTuple):
    """One setting, before and after the change. None means no limit."""

    setting: str
    was: float | int | bool | None
    now: float | int | bool | None

    @property
    def tighter(self) -> bool:
        """Whether the crawl may end earlier or drop requests or dead letters because of the change."""
        return self.setting in MAY_BE_NONE and self.now is not None and (self.was is None or self.now < self.was)

    def __str__(self) -> str:
        return f"{self.setting.replace('_', '-')} {_word(self.was)} → {_word(self.now)}"


class Wanted(NamedTuple):
    """The requested settings of a crawl, and the changes from the stored ones."""

    politeness: Politeness
    budget: Budget
    capacity: int
    dead_limit: int
    """0 for no limit."""
    run: RunOptions
    changes: list[SettingChange]

    @property
    def words(self) -> str:
        return ", ".join(map(str, self.changes))

    @property
    def tighter(self) -> bool:
        return any(change.tighter for change in self.changes)

    @property
    def warning(self) -> str:
        """What a tighter limit does, as a sentence."""
        if all(change.setting == DEAD_LIMIT for change in self.changes if change.tighter):
            return "The oldest dead letters beyond a lower limit are deleted"
        more = " or kept" if any(change.setting == DEAD_LIMIT and change.tighter for change in self.changes) else ""
        return f"Requests beyond a lower limit are not crawled{more}"

    def touches(self, *settings: str) -> bool:
        return any(change.setting in settings for change in self.changes)


def read(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the given values, by setting; ``none`` removes a limit."""
    found: dict[str, Any] = {}
    for name, text in given.items():
        option = f"--{name.replace('_', '-')}"
        if name in MAY_BE_NONE and text == NONE:
            found[name] = None
        elif name == "delay":
            found[name] = seconds(option, text) or 0.0
        else:
            found[name] = whole(option, text, f"a whole number{' or none' if name in MAY_BE_NONE else ''}")
    return found


def want(settings: Settings, run: RunOptions, given: Mapping[str, Any]) -> Wanted:
    """Return the settings with the *given* values in place of the stored ones."""
    if not given:
        raise ConfigError("nothing to set: give at least one setting, such as --max-pages or --delay")
    pace = {name: given[name] for name in PACE if name in given}
    limits = {field: given[name] for name, field in LIMITS.items() if name in given}
    politeness = msgspec.structs.replace(settings.politeness, **pace)
    budget = msgspec.structs.replace(settings.budget, **limits)
    capacity = check_capacity(given.get("capacity", settings.capacity))
    dead_limit = check_dead_limit(given.get(DEAD_LIMIT, settings.dead_limit) or 0)
    allowed = given.get("allow_private", run.allow_private)
    before, after = _values(settings.politeness, settings.budget), _values(politeness, budget)
    before |= {
        "capacity": settings.capacity,
        DEAD_LIMIT: settings.dead_limit or None,
        "allow_private": bool(run.allow_private),
    }
    after |= {"capacity": capacity, DEAD_LIMIT: dead_limit or None, "allow_private": bool(allowed)}
    changes = [SettingChange(name, before[name], after[name]) for name in after if before[name] != after[name]]
    return Wanted(
        politeness, budget, capacity, dead_limit, msgspec.structs.replace(run, allow_private=allowed), changes
    )


def _values(politeness: Politeness, budget: Budget) -> dict[str, Any]:
    pace = {name: getattr(politeness, name) for name in PACE}
    return pace | {name: getattr(budget, field) for name, field in LIMITS.items()}


def _word(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
