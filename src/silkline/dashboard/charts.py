"""Charts as SVG paths in a box of 1000 by 100, which the templates draw. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from silkline.dashboard import formatting

WIDTH, HEIGHT = 1000.0, 100.0
Values = Sequence[float | None]


class Series(NamedTuple):
    """One series of values; *kind* is the CSS class that sets its color."""

    name: str
    kind: str
    values: Values


class Shape(NamedTuple):
    """The paths of a drawn series."""

    name: str
    kind: str
    line: str
    """The path of the line."""
    area: str
    """The path of the area below the line."""
    dots: str = ""
    """A path without length at each value that has no neighbor, which a line does not show."""


class Chart(NamedTuple):
    """The data that the template needs."""

    title: str
    shapes: list[Shape]
    top: str
    middle: str
    times: list[tuple[float, str]]
    """Some of the time steps, with their time of day in UTC; the script shows them in the time zone of the browser."""
    start: float
    step: float
    tips: str
    """The tooltips, one line per time step."""
    legend: list[Shape]
    latest: str
    summary: str
    empty: bool


class Frame(NamedTuple):
    """What charts of the same period share."""

    times: Sequence[float]
    say: Callable[[float | None], str] = formatting.compact
    unit: int = 1000
    """Factor between two units: 1000, or 1024 for bytes."""


def draw(title: str, frame: Frame, lines: Sequence[Series], *, stacked: bool = False) -> Chart:
    """Return a chart of the series over time; *stacked* series are drawn on top of each other."""
    floors = _floors(lines) if stacked else [[0.0] * len(frame.times) for _ in lines]
    tops = [_add(line.values, floor) for line, floor in zip(lines, floors, strict=True)]
    known = [value for values in tops for value in values if value is not None]
    highest = nice(max(known, default=0.0), frame.unit)
    shapes = [
        Shape(line.name, line.kind, _path(values, highest), _area(values, floor, highest), _dots(values, highest))
        for line, values, floor in zip(lines, tops, floors, strict=True)
    ]
    last = [next((value for value in reversed(line.values) if value is not None), None) for line in lines]
    return Chart(
        title=title,
        shapes=shapes,
        top=frame.say(highest),
        middle=frame.say(highest / 2),
        times=_labels(frame.times),
        start=frame.times[0] if frame.times else 0.0,
        step=frame.times[1] - frame.times[0] if len(frame.times) > 1 else 0.0,
        tips=_tips(frame, lines),
        legend=shapes[::-1] if stacked else shapes,
        latest=frame.say(sum(value or 0.0 for value in last) if stacked else last[0]),
        summary=", ".join(f"{line.name} {frame.say(value)}" for line, value in zip(lines, last, strict=True)),
        empty=not any(known),
    )


def spark(values: Values) -> Shape:
    """Return a sparkline."""
    known = [value for value in values if value is not None]
    highest = max(known, default=0.0) or 1.0
    return Shape(
        "", "spark", _path(values, highest), _area(values, [0.0] * len(values), highest), _dots(values, highest)
    )


def nice(value: float, unit: int = 1000) -> float:
    """Round up to a number that is easy to read, and whose half is too."""
    if value <= 0:
        return 1.0
    whole = float(unit) ** max(0, math.floor(math.log(value, unit)))
    value /= whole
    power = 10.0 ** math.floor(math.log10(value))
    return whole * next(
        step * power for step in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.999
    )


def _floors(lines: Sequence[Series]) -> list[list[float]]:
    floors = [[0.0] * len(lines[0].values)]
    for line in lines[:-1]:
        floors.append([below + (value or 0.0) for below, value in zip(floors[-1], line.values, strict=True)])
    return floors


def _add(values: Values, floor: Sequence[float]) -> Values:
    return [None if value is None else value + below for value, below in zip(values, floor, strict=True)]


def _x(place: int, count: int) -> float:
    return WIDTH * place / max(1, count - 1)


def _y(value: float, highest: float) -> float:
    return HEIGHT - HEIGHT * value / highest


def _runs(values: Values) -> list[list[int]]:
    """Return the positions with a value, in contiguous runs."""
    runs: list[list[int]] = [[]]
    for place, value in enumerate(values):
        if value is not None:
            runs[-1].append(place)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _points(places: Sequence[int], values: Values, highest: float) -> str:
    return " L".join(f"{_x(i, len(values)):.1f} {_y(values[i] or 0.0, highest):.1f}" for i in places)


def _path(values: Values, highest: float) -> str:
    return " ".join(f"M{_points(run, values, highest)}" for run in _runs(values))


def _dots(values: Values, highest: float) -> str:
    return " ".join(f"M{_points(run, values, highest)} h0" for run in _runs(values) if len(run) == 1)


def _area(values: Values, floor: Sequence[float], highest: float) -> str:
    return " ".join(
        f"M{_points(run, values, highest)} L{_points(run[::-1], floor, highest)} Z" for run in _runs(values)
    )


def _labels(times: Sequence[float]) -> list[tuple[float, str]]:
    """Return five evenly spaced times, each with its time of day."""
    if len(times) < 2:
        return []
    chosen = [times[round(part * (len(times) - 1) / 4)] for part in range(5)]
    return [(time, formatting.clock(time)) for time in chosen]


def _tips(frame: Frame, lines: Sequence[Series]) -> str:
    return "\n".join(
        " · ".join([formatting.clock(time), *(f"{line.name} {frame.say(line.values[place])}" for line in lines)])
        for place, time in enumerate(frame.times)
    )
