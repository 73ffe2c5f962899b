"""Cron lines: which times they select, in every time zone, and which lines are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from silkline import Tasks
from silkline.errors import ConfigError
from silkline.tasks.cron import FIELDS, Cron
from silkline.testing import MemoryTasks

BERLIN = "Europe/Berlin"


def at(text, tz="UTC"):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).timestamp()


def ticks(line, start, count, tz="UTC"):
    """The next times after *start*, as local times with their offset from UTC in hours."""
    cron, now, found = Cron(line, tz), at(start, tz), []
    for _ in range(count):
        now = cron.next(now)
        local = datetime.fromtimestamp(now, ZoneInfo(tz))
        found.append(f"{local:%Y-%m-%d %H:%M} {local.utcoffset() // timedelta(hours=1):+d}")
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("*/20 9-17/8 * * mon-fri", ["2026-01-01 17:20", "2026-01-01 17:40", "2026-01-02 09:00", "2026-01-02 09:20"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("30 6 1,15 jan,jul *", ["2026-01-15 06:30", "2026-07-01 06:30"]),
        ("0 0 13 * fri", ["2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00"]),  # one of the two
        ("0 0 1-7 * */7", ["2026-01-04 00:00", "2026-02-01 00:00"]),  # both, because of the star: the first Sunday
        ("59 23 31 12 7", ["2026-12-06 23:59", "2026-12-13 23:59"]),
        ("0 12 * * fri-sun", ["2026-01-02 12:00", "2026-01-03 12:00", "2026-01-04 12:00", "2026-01-09 12:00"]),
        ("50/5 0 * * *", ["2026-01-02 00:50", "2026-01-02 00:55", "2026-01-03 00:50"]),
        ("@monthly", ["2026-02-01 00:00", "2026-03-01 00:00"]),
        ("  0   0  *  *  SUN ", ["2026-01-04 00:00"]),
    ],
)
def test_a_line_selects_these_times(line, expected):
    assert ticks(line, "2026-01-01 17:00", len(expected)) == [f"{time} +0" for time in expected]


def test_a_skipped_time_is_the_moment_after_the_gap():
    """On 29 March 2026, clocks in Berlin go from 2:00 to 3:00."""
    assert ticks("30 2 * * *", "2026-03-28 00:00", 3, BERLIN) == [
        "2026-03-28 02:30 +1", "2026-03-29 03:00 +2", "2026-03-30 02:30 +2",
    ]  # fmt: skip
    assert ticks("*/30 * * * *", "2026-03-29 01:00", 3, BERLIN) == [
        "2026-03-29 01:30 +1", "2026-03-29 03:00 +2", "2026-03-29 03:30 +2",
    ]  # fmt: skip
    assert ticks("*/10 2 * * *", "2026-03-29 01:00", 2, BERLIN) == ["2026-03-29 03:00 +2", "2026-03-30 02:00 +2"]


def test_a_time_that_comes_twice_counts_once_unless_the_hour_is_a_star():
    """On 25 October 2026, clocks in Berlin go from 3:00 to 2:00."""
    assert ticks("30 2 * * *", "2026-10-25 00:00", 2, BERLIN) == ["2026-10-25 02:30 +2", "2026-10-26 02:30 +1"]
    assert ticks("*/30 * * * *", "2026-10-25 01:30", 5, BERLIN) == [
        "2026-10-25 02:00 +2", "2026-10-25 02:30 +2", "2026-10-25 02:00 +1", "2026-10-25 02:30 +1", "2026-10-25 03:00 +1",
    ]  # fmt: skip


def test_clocks_that_are_set_at_midnight_or_by_a_day():
    assert ticks("0 0 * * *", "2018-11-03 12:00", 2, "America/Sao_Paulo") == [
        "2018-11-04 01:00 -2",
        "2018-11-05 00:00 -2",
    ]
    assert ticks("30 23 * * *", "2018-02-17 12:00", 2, "America/Sao_Paulo") == [
        "2018-02-17 23:30 -2", "2018-02-18 23:30 -3",
    ]  # fmt: skip
    assert ticks("0 12 * * *", "2011-12-29 00:00", 3, "Pacific/Apia") == [
        "2011-12-29 12:00 -10", "2011-12-31 00:00 +14", "2011-12-31 12:00 +14",
    ]  # fmt: skip


def items(field):
    numbers = st.integers(field.least, field.most)
    ranges = st.tuples(numbers, numbers).map(sorted).map(lambda ends: f"{ends[0]}-{ends[1]}")
    steps = st.tuples(st.one_of(st.just("*"), ranges), st.integers(1, field.most - field.least + 1))
    some = st.one_of(numbers.map(str), ranges, steps.map(lambda step: f"{step[0]}/{step[1]}"))
    return st.one_of(st.just("*"), st.lists(some, min_size=1, max_size=3).map(",".join))


ZONES = ["UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Havana"]


@settings(max_examples=60, deadline=None)
@given(
    fields=st.tuples(*[items(field) for field in FIELDS]),
    start=st.integers(1_767_225_600, 1_798_761_600),
    tz=st.sampled_from(ZONES),
)
@example(fields=("0", "0", "31", "2,4", "*"), start=1_767_225_600, tz="UTC")
@example(fields=("*/7", "*", "*", "*", "*"), start=1_792_886_400, tz=BERLIN)
@example(fields=("*/7", "1-3", "*", "*", "*"), start=1_774_742_400, tz=BERLIN)
def test_the_next_time_is_the_first_that_matches(fields, start, tz):
    """Compared with a search minute by minute over two days, in local times that exist once."""
    try:
        cron = Cron(" ".join(fields), tz)
    except ConfigError:
        minute, hour = (min(numbers(field, text)) for field, text in zip(FIELDS[:2], fields[:2], strict=True))
        days = [datetime(2024, 1, 1, hour, minute, tzinfo=UTC) + timedelta(days=day) for day in range(1461)]
        assert not any(selects(fields, day) for day in days)
        return
    found = cron.next(start)
    assert found > start
    assert cron.next(found - 1) == found
    zone = ZoneInfo(tz)
    for minute in range(start // 60 + 1, min(found, start + 2 * 86_400) // 60 + 1):
        local = datetime.fromtimestamp(minute * 60, zone)
        if local.replace(fold=0).timestamp() == local.replace(fold=1).timestamp() and selects(fields, local):
            assert minute * 60 == found
            return


def selects(fields, local):
    values = (local.minute, local.hour, local.day, local.month, local.isoweekday() % 7)
    hits = [value in numbers(field, text) for field, text, value in zip(FIELDS, fields, values, strict=True)]
    either = "*" not in (fields[2][0], fields[4][0])
    return all(hits[:2]) and hits[3] and (hits[2] or hits[4] if either else hits[2] and hits[4])


def numbers(field, text):
    found = set()
    for item in text.split(","):
        chosen, _, step = item.partition("/")
        ends = (field.least, field.most) if chosen == "*" else [int(end) for end in chosen.split("-")]
        every = range(ends[0], ends[-1] + 1)[:: int(step or 1)]
        if field.name == "weekday":
            every = [number % 7 for number in every if chosen != "*" or number < 7]
        found |= set(every)
    return found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 0 30 2 *", "the cron line '0 0 30 2 \\*' never runs"),
        ("0 0 31 4,6,9,11 *", "never runs"),
        ("* * * *", r"five fields \(minute, hour, day, month, weekday\), or is one of @hourly"),
        ("0 * * * * *", "five fields"),
        ("", "five fields"),
        ("@often", "five fields"),
        (5, "must be a line of text"),
        ("0 " * 500, "must be a line of text"),
        ("60 * * * *", "the minute '60' of the cron line .* is wrong: '60' is not from 0 to 59"),
        ("* 24 * * *", "the hour '24'"),
        ("* * 0 * *", "the day '0'"),
        ("* * * 13 *", "'13' is not from 1 to 12, or jan to dec"),
        ("* * * * 8", "'8' is not from 0 to 7, or sun to sat"),
        ("* * * * monday", "the weekday 'monday'"),
        ("30-10 * * * *", "'30-10' ends before it begins"),
        ("*/0 * * * *", "the step '0' is not from 1 to 60"),
        ("*/90 * * * *", "the step '90'"),
        ("1, * * * *", "'' is not from 0 to 59"),
        ("-5 * * * *", "'' is not from 0"),
        ("5- * * * *", "'' is not from 0"),
        ("1/ * * * *", "the step ''"),
        ("٣ * * * *", "'٣' is not from 0"),
        ("1.5 * * * *", "'1.5' is not"),
        ("L * * * *", "'l' is not"),
    ],
)
def test_a_wrong_line_is_an_error_that_names_the_field(line, words):
    with pytest.raises(ConfigError, match=words):
        Cron(line)


@pytest.mark.parametrize("tz", ["Europe/Berln", "", "../etc/passwd", "Europe", 5, None, "x" * 5000, "a\0b"])
def test_an_unknown_time_zone_is_an_error(tz):
    with pytest.raises(ConfigError, match="there is no time zone"):
        Cron("* * * * *", tz)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cron": "0 0 30 2 *"}, "never runs"),
        ({"cron": "* * * * *", "every": 60}, "every and cron cannot be used together"),
        ({"tz": BERLIN}, "tz is the time zone of a cron line"),
        ({"cron": "* * * * *", "tz": "Mars/Olympus"}, "there is no time zone 'Mars/Olympus'"),
    ],
)
def test_a_wrong_schedule_is_an_error_at_registration(options, words):
    app = Tasks("wrong")
    with pytest.raises(ConfigError, match=words):

        @app.task(**options)
        async def report() -> None: ...


async def test_a_task_with_a_cron_line_runs_at_its_times():
    app, ran = Tasks("cron"), []

    @app.task(cron="30 9 * * mon-fri", tz=BERLIN)
    async def report() -> None:
        ran.append(f"{datetime.fromtimestamp(memory.clock.seconds, UTC):%a %H:%M}")

    async with MemoryTasks(app) as memory:
        memory.clock.advance(at("2027-01-14 00:00") - memory.clock.seconds)  # a Thursday
        for _ in range(7 * 48):
            await memory.run()
            memory.clock.advance(1800)
    assert ran == ["Thu 08:30", "Fri 08:30", "Mon 08:30", "Tue 08:30", "Wed 08:30"]
