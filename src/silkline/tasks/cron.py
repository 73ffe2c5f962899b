"""Cron lines: five fields, as crontab has them, in a time zone.

When clocks are set forward, the times that are skipped become one: the moment after the gap. When they are set back, a line with a
``*`` for the hour runs in both of the equal hours, and any other line only in the first. If both the day and the weekday are given, a
day must match one of them, as in crontab.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from silkline.errors import ConfigError

LONGEST_WAIT = timedelta(days=50 * 366)
"""A line that does not run in this time never runs: 29 February is a given weekday every 40 years at least."""
LONGEST_LINE = 200
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


class Field(NamedTuple):
    """One of the five fields: its name, its numbers, and their names."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day", 1, 31),
    Field("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    Field("weekday", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)


class Cron:
    """A cron line such as ``*/5 9-17 * * mon-fri``, in the time zone *tz*. Raises `ConfigError` if it is wrong, or never runs."""

    def __init__(self, line: str, tz: str = "UTC") -> None:
        fields = _fields_of(line)
        self.line = " ".join(fields)
        self.tz = tz
        self._zone = _zone(tz)
        minutes, hours, self._days, self._months, weekdays = (
            _numbers(field, text, self.line) for field, text in zip(FIELDS, fields, strict=True)
        )
        self._weekdays = {number % 7 for number in weekdays}
        self._is_either_day = not fields[2].startswith("*") and not fields[4].startswith("*")
        self._repeats = fields[1].startswith("*")
        self._minutes = [hour * 60 + minute for hour in sorted(hours) for minute in sorted(minutes)]
        if not any(self._has(day) for day in _days_from(date(2000, 1, 1))):
            raise ConfigError(f"the cron line {self.line!r} never runs: no month that it names has such a day")

    def __str__(self) -> str:
        return f"{self.line} {self.tz}"

    def next(self, now: float) -> int:
        """Return the first unix time after *now* at which the line runs."""
        today = datetime.fromtimestamp(now, self._zone).date()
        for day in _days_from(today - _DAY):
            if self._has(day):
                times = self._times(day)
                place = bisect_right(times, now)
                if place < len(times):
                    return times[place]
        raise ConfigError(f"the cron line {self.line!r} does not run any more")

    def _has(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        in_month, in_week = day.day in self._days, day.isoweekday() % 7 in self._weekdays
        return in_month or in_week if self._is_either_day else in_month and in_week

    def _times(self, day: date) -> list[int]:
        """Return the unix times of a day, sorted."""
        midnight = datetime.combine(day, time(), self._zone)
        if midnight.utcoffset() == (midnight + _DAY).replace(fold=1).utcoffset() and not _is_skipped(midnight):
            start = round(midnight.timestamp())
            return [start + minute * 60 for minute in self._minutes]
        return sorted({at for minute in self._minutes for at in self._moments(midnight + minute * _MINUTE)})

    def _moments(self, local: datetime) -> Iterator[int]:
        """Yield the unix times of a local time on a day on which clocks are set: one, or two if it comes twice."""
        first, second = round(local.timestamp()), round(local.replace(fold=1).timestamp())
        if _is_skipped(local):
            yield self._end_of_gap(second, first)
            return
        yield first
        if self._repeats and second > first:
            yield second

    def _end_of_gap(self, before: int, after: int) -> int:
        """Return the moment between two unix times at which the clocks were set forward."""
        late = datetime.fromtimestamp(after, self._zone).utcoffset()
        while after - before > 1:
            middle = (before + after) // 2
            if datetime.fromtimestamp(middle, self._zone).utcoffset() == late:
                after = middle
            else:
                before = middle
        return after


def _is_skipped(local: datetime) -> bool:
    """Return whether clocks are set forward over this time."""
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) != local.replace(tzinfo=None)


def _days_from(day: date) -> Iterator[date]:
    for _ in range(LONGEST_WAIT.days):
        yield day
        day += _DAY


def _fields_of(line: str) -> list[str]:
    if not isinstance(line, str) or len(line) > LONGEST_LINE:
        raise ConfigError(f"cron must be a line of text such as '0 9 * * mon-fri', got {line!r:.100}")
    fields = MACROS.get(line.strip().lower(), line).lower().split()
    if len(fields) != len(FIELDS):
        names = ", ".join(field.name for field in FIELDS)
        raise ConfigError(f"a cron line has five fields ({names}), or is one of {', '.join(MACROS)}; got {line!r}")
    return fields


def _zone(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise ConfigError(
            f"there is no time zone {tz!r:.100} on this machine: use a name such as 'Europe/Berlin', and install "
            "the package tzdata if the system has no time zones"
        ) from None


def _numbers(field: Field, text: str, line: str) -> set[int]:
    """Return the numbers that a field selects."""
    try:
        return {number for item in text.split(",") for number in _item(field, item)}
    except ValueError as error:
        raise ConfigError(f"the {field.name} {text!r} of the cron line {line!r} is wrong: {error}") from None


def _item(field: Field, item: str) -> range:
    chosen, slash, step = item.partition("/")
    first, dash, last = chosen.partition("-")
    most = 6 if field.name == "weekday" else field.most  # 7 is Sunday, too
    if chosen == "*":
        low, high = field.least, most
    else:
        low = _number(field, first)
        high = _number(field, last) if dash else max(most, low) if slash else low
    if field.name == "weekday" and dash and high == 0 < low:
        high = 7  # "fri-sun"
    if high < low:
        raise ValueError(f"{chosen!r} ends before it begins")
    every = _whole(step) if slash else 1
    if not 1 <= every <= field.most - field.least + 1:
        raise ValueError(f"the step {step!r} is not from 1 to {field.most - field.least + 1}")
    return range(low, high + 1, every)


def _number(field: Field, text: str) -> int:
    if text in field.names:
        return field.least + field.names.index(text)
    number = _whole(text)
    if not field.least <= number <= field.most:
        names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
        raise ValueError(f"{text!r} is not from {field.least} to {field.most}{names}")
    return number


def _whole(text: str) -> int:
    """Return a number; -1 for other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
