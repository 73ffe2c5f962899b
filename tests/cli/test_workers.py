"""``silkline workers``, with workers that tell of themselves."""

from __future__ import annotations

import pytest

from silkline import SyncFrontier
from silkline.cli.main import OF_WORKERS, app


@pytest.fixture
def books(frontier):
    one = frontier()
    urls = [f"https://a.example/{n}" for n in range(5)]
    one.internal.join("w-1", info={"version": "0.1.0", "memory": 80 * 2**20, "urls": urls})
    one.internal.join("w-2", info={"urls": ["https://evil.example/\x1b[31m[red]x"], "memory": "much"})
    one.internal.join("w-3", expires=0.001)
    return one


def test_workers_are_listed_with_what_they_tell(operate, books, crawl):
    out = operate("workers", "ls", crawl).out
    for words in ("w-1", "0.1.0", "80 MiB", "https://a.example/2", "and 2 more", "lost", "[red]x"):
        assert words in out
    assert "\x1b[31m" not in out
    rows = operate("workers", "ls", crawl, "--json").json
    assert {row["name"]: row["alive"] for row in rows} == {"w-1": True, "w-2": True, "w-3": False}
    assert {row["order"] for row in rows} == {"work"}


def test_without_a_name_the_workers_of_all_crawls_are_listed(operate, books, crawl, valkey):
    with SyncFrontier.open(valkey.url, crawl=f"{crawl}-b") as another:
        another.internal.join("w-9")
    answer = operate("workers", "ls")
    assert answer.code == 0
    assert answer.out.split()[:2] == ["crawl", "worker"]
    assert "w-1" in answer.out
    rows = operate("workers", "ls", "--json").json
    found = {(row["crawl"], row["name"]) for row in rows if row["crawl"].startswith(crawl)}
    assert found == {(crawl, "w-1"), (crawl, "w-2"), (crawl, "w-3"), (f"{crawl}-b", "w-9")}


def test_an_empty_crawl_says_how_to_start(operate, frontier, crawl):
    frontier()
    assert operate("workers", "ls", crawl).out == f"{crawl} has no workers. To start one: silkline worker FILE\n"


def test_workers_are_ordered_to_be_quiet_and_to_stop(operate, books, crawl):
    assert operate("workers", "quiet", crawl, "w-1").out == "1 worker ordered to quiet\n"
    assert (books.internal.ordered("w-1"), books.internal.ordered("w-2")) == ("quiet", "work")
    assert "quiet" in operate("workers", "ls", crawl).out
    assert operate("workers", "resume", crawl, "w-1").out == "1 worker ordered to resume\n"
    assert books.internal.ordered("w-1") == "work"
    told = operate("workers", "stop", crawl, "all", "--json").json
    assert sorted(told["workers"]) == ["w-1", "w-2"]
    assert (books.internal.ordered("w-1"), books.internal.ordered("w-2")) == ("stop", "stop")
    assert [(act.what, act.about) for act in books.admin.audit()] == [
        ("stop worker", "all"), ("resume worker", "w-1"), ("quiet worker", "w-1"),
    ]  # fmt: skip


def test_the_singular_means_the_same_unless_there_is_a_file_named_so(operate, books, crawl, workplace):
    assert {row["name"] for row in operate("worker", "ls", crawl, "--json").json} == {"w-1", "w-2", "w-3"}
    assert operate("worker", "quiet", crawl, "w-1").out == "1 worker ordered to quiet\n"
    assert operate("worker", "resume", crawl, "w-1").out == "1 worker ordered to resume\n"
    assert operate("worker", "stop", crawl, "w-2").out == "1 worker ordered to stop\n"
    assert {name: books.internal.ordered(name) for name in ("w-1", "w-2")} == {"w-1": "work", "w-2": "stop"}
    (workplace / "ls").write_text("")
    answer = operate("worker", "ls", crawl)
    assert answer.code == 2
    assert "See: silkline worker --help" in answer.err


def test_each_command_of_workers_can_be_had_in_the_singular():
    names = app.resolved_commands()["workers"].resolved_commands()
    assert set(OF_WORKERS) == {name for name in names if not name.startswith("-")}


@pytest.mark.parametrize(
    "wrong",
    [
        ("ls", "no-such-crawl"),
        ("ls", "CRAWL", "--limit", "0"),
        ("stop", "CRAWL"),
        ("stop", "CRAWL", "nobody"),
        ("quiet", "CRAWL", "all"),
        ("quiet", "CRAWL", ""),
        ("kill", "CRAWL", "w-1"),
    ],
)
def test_what_is_wrong_gets_a_sentence_and_code_2(operate, frontier, crawl, wrong):
    frontier()
    answer = operate("workers", *(crawl if word == "CRAWL" else word for word in wrong))
    assert (answer.code, answer.err.startswith("error: "), answer.out) == (2, True, "")
