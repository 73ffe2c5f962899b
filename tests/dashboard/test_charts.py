"""The arithmetic behind the pages: charts, sums and words."""

from __future__ import annotations

import math

import pytest

from silkline.dashboard import charts, formatting, queries
from silkline.dashboard.charts import Frame, Series
from silkline.frontier.verbs.history import Levels, Point


def point(time, *, step=30.0, depth=None, **counts):
    levels = (
        None if depth is None else Levels(ready=depth, delayed=0, leased=0, done=0, dead=0, discarded=0, overflow=0)
    )
    return Point(time=time, step=step, levels=levels, **counts)


def test_a_line_leaves_gaps_where_nobody_looked():
    chart = charts.draw("Left", Frame([0, 30, 60, 90, 120]), [Series("left", "left", [10, 5, None, 5, 0])])
    assert chart.shapes[0].line == "M0.0 0.0 L250.0 50.0 M750.0 50.0 L1000.0 100.0"
    assert (chart.top, chart.middle, chart.latest) == ("10", "5", "0")
    assert chart.tips.splitlines()[2] == "00:01 · left –"


def test_a_value_without_neighbors_is_a_dot():
    values = [None, 5, None, 10, 10]
    chart = charts.draw("Left", Frame([0, 30, 60, 90, 120]), [Series("left", "left", values)])
    assert chart.shapes[0].dots == "M250.0 50.0 h0"
    assert charts.spark([1, 2]).dots == ""
    assert charts.spark([2]).dots == "M0.0 0.0 h0"


def test_stacked_lines_stand_on_each_other():
    lines = [Series("5xx", "status-5", [1, 1]), Series("2xx", "status-2", [3, 9])]
    chart = charts.draw("Answers", Frame([0, 30]), lines, stacked=True)
    assert chart.shapes[1].area == "M0.0 60.0 L1000.0 0.0 L1000.0 90.0 L0.0 90.0 Z"
    assert chart.latest == "10"
    assert [shape.name for shape in chart.legend] == ["2xx", "5xx"]


@pytest.mark.parametrize("values", [[], [None, None], [0, 0]])
def test_nothing_is_drawn_without_harm(values):
    chart = charts.draw("Pages", Frame(list(range(len(values)))), [Series("pages", "pages", values)])
    assert chart.empty
    assert charts.spark(values).name == ""


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (1, 1), (1.01, 1.2), (128, 160), (63, 80), (999, 1000), (0.03, 0.03)]
)
def test_scales_end_at_numbers_that_people_like(value, top):
    assert charts.nice(value) == pytest.approx(top)


def test_a_scale_of_bytes_ends_at_a_round_number_of_binary_units():
    assert [charts.nice(n, 1024) for n in (0, 3, 900, 1500, 5 * 2**20, 130 * 2**20)] == [
        1, 3, 1000, 1.6 * 2**10, 5 * 2**20, 160 * 2**20,
    ]  # fmt: skip


def test_when_all_will_be_done():
    shrinking = [point(30.0 * n, depth=1000 - 10 * n) for n in range(20)]
    assert queries.drains_in(shrinking, 500) == pytest.approx(1500)
    growing = [point(30.0 * n, depth=1000 + n) for n in range(20)]
    assert math.isinf(queries.drains_in(growing, 500))
    assert queries.drains_in([point(30.0 * n) for n in range(20)], 500) is None
    assert queries.drains_in([], 500) is None
    assert queries.drains_in([], 0) == 0


def test_what_was_done_recently_leaves_out_the_step_that_has_only_begun():
    points = [point(0, pages=300), point(30, pages=60, errors=20), point(60, pages=60), point(90, pages=1)]
    assert queries.pages_per_second(points) == 2.0
    assert queries.error_rate(points) == 20 / 440
    assert queries.error_rate([]) is None
    assert queries.pages_per_second([]) == 0


def test_histories_are_summed_and_a_crawl_nobody_opened_stays_as_it_was():
    one, two = [point(0, pages=1, depth=5), point(30, pages=2)], [point(30, pages=4, depth=7)]
    assert [each.pages for each in queries.summed([one, two])] == [1, 6]
    assert queries.depths([one, two], [0, 30, 60]) == [5, 12, None]


def test_numbers_as_people_read_them():
    assert [formatting.compact(n) for n in (0, 7, 7.25, 999, 1000, 12_340, 4_100_000, 2e9)] == [
        "0", "7", "7.25", "999", "1k", "12.3k", "4.1M", "2G",
    ]  # fmt: skip
    assert [formatting.size(n) for n in (5, 2048, 3 * 2**20, 2**31)] == ["5 B", "2 KiB", "3 MiB", "2 GiB"]
    assert formatting.traffic(2.5 * 2**20) == "2.5 MiB/s"
    assert [formatting.percent(n) for n in (0, 0.0001, 0.021, 0.5, 1)] == ["0%", "0%", "2.1%", "50%", "100%"]
    assert [formatting.lasting(n) for n in (3, 90, 600, 9000, 900_000)] == [
        "3.0 s",
        "90 s",
        "10 min",
        "2.5 h",
        "10 days",
    ]
    assert formatting.ago(100, 101) == "just now"
    for say in (
        formatting.number,
        formatting.compact,
        formatting.size,
        formatting.percent,
        formatting.rate,
        formatting.lasting,
        formatting.traffic,
    ):
        assert say(None) == "–"
    assert formatting.plain("a\u202eb\x00") == "a\ufffdb\ufffd"
