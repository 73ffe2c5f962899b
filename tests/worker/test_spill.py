"""Where the links of a full crawl wait unless it is told."""

from pathlib import Path

import pytest

from silkline.errors import ConfigError
from silkline.frontier.overflow import LateOverflow, SqliteOverflow, overflow_of, overflow_path


@pytest.mark.parametrize(
    ("wish", "redis", "place"),
    [
        (None, None, ".silkline/overflow.db"),
        (None, "embedded:/data/crawls", "/data/crawls/overflow.db"),
        (None, "redis://localhost", "books.overflow.db"),
        ("links.db", "redis://localhost", "links.db"),
        ("links.db", None, "links.db"),
    ],
)
def test_all_who_are_started_alike_find_the_same_place(wish, redis, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert overflow_path(wish, redis, Path("books.py")) == Path(place)


def test_there_may_be_none():
    assert overflow_of("none", None) is None
    assert overflow_of(None, "redis://localhost") is None  # and no file beside which it could be
    assert overflow_of(None, "redis://localhost", Path("/proc/1/books.py")) is None


def test_only_what_was_wished_for_is_made_at_once(tmp_path):
    late = overflow_of(None, "redis://localhost", tmp_path / "books.py")
    assert isinstance(late, LateOverflow)
    assert list(tmp_path.iterdir()) == []
    wished = overflow_of(str(tmp_path / "links.db"), "redis://localhost")
    assert isinstance(wished, SqliteOverflow)
    wished.close()
    with pytest.raises(ConfigError, match="cannot be used"):
        overflow_of(str(tmp_path / "no" / "links.db"), "redis://localhost")
