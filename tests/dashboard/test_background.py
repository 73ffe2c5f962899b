"""Questions that take longer than a page may wait: it says so, and shows the answer when it is there."""

from __future__ import annotations

import asyncio
import threading

import pytest

from silkline.dashboard import app, slow_queries
from silkline.dashboard.slow_queries import SlowQueries
from tests.dashboard.serving import TOKEN, Serving, Visitor


@pytest.fixture
def impatient(store):
    """A visitor of a dashboard that waits for no long answer, however soon it would come."""
    dashboard = app(store.url, token=TOKEN)
    dashboard.slow_queries = SlowQueries(patience=0)
    with Serving(dashboard) as serving:
        visitor = Visitor(serving.port)
        assert visitor.sign_in().status == 303
        yield visitor


def until(visitor, path, words, **headers):
    """The first page that no longer says these words."""
    for _ in range(1000):
        page = visitor.get(path, **headers)
        if words not in page.words:
            return page
    raise AssertionError(f"it says {words!r} forever")


COUNTING, LOOKING = "Counting dead letters", "Searching 16 dead letters."


@pytest.mark.parametrize("verb", ["revive", "purge"])
def test_a_count_that_takes_long_is_there_when_it_is_asked_for_again(impatient, own_crawl, verb):
    path = f"/dead/{verb}?crawl={own_crawl.crawl}&status=503"
    page = impatient.get(path)
    assert page.status == 200
    assert COUNTING in page.words
    assert "Searching 16 dead letters for status 503. Then you can confirm to" in page.words
    assert "data-soon" in page.text
    assert f'action="/dead/{verb}"' not in page.text, "nothing can be done before it is counted"
    counted = until(impatient, path, COUNTING)
    assert f"{verb.capitalize()} 8 dead letters?" in counted.words
    assert f'action="/dead/{verb}"' in counted.text


def test_after_a_revive_it_is_counted_again(impatient, own_crawl):
    path = f"/dead/revive?crawl={own_crawl.crawl}&status=503"
    page = until(impatient, path, COUNTING)
    done = impatient.post("/dead/revive", {"csrf": page.csrf, "crawl": own_crawl.crawl, "status": "503"})
    assert "Dead letters revived: 8" in impatient.get(done.headers["location"]).words
    assert "No dead letter matches" in until(impatient, path, COUNTING).words


@pytest.mark.parametrize("which", ["", "&all=1"])
def test_a_look_at_letters_is_there_when_it_is_asked_for_again(impatient, own_crawl, which):
    path = f"/dead?crawl={own_crawl.crawl}&status=503{which}"
    page = impatient.get(path)
    assert LOOKING in page.words
    assert "data-soon" in page.text
    found = until(impatient, path, LOOKING)
    assert found.text.count("/dead/letter?") == 8


def test_the_search_for_a_url_that_takes_long_is_there_when_it_is_asked_for_again(impatient, own_crawl):
    path, looking = f"/requests?crawl={own_crawl.crawl}&url=https://a.example/9", "Searching the delayed requests"
    page = impatient.get(path)
    assert looking in page.words
    assert "data-soon" in page.text
    found = until(impatient, path, looking)
    assert 'class="sentence' in found.text
    impatient.post("/requests/add", {"csrf": found.csrf, "crawl": own_crawl.crawl, "url": "https://a.example/9"})
    assert looking in impatient.get(path).words, "it may stand elsewhere after an act"
    assert "dead since" in until(impatient, path, looking).words
    impatient.post("/dead/revive", {"csrf": found.csrf, "crawl": own_crawl.crawl, "host": "a.example"})
    assert "dead since" not in until(impatient, path, looking).words


def test_a_page_that_refreshes_itself_keeps_the_last_answer_while_it_is_sought_again(impatient, own_crawl, monkeypatch):
    path = f"/dead?crawl={own_crawl.crawl}&status=503&all=1"
    until(impatient, path, LOOKING)
    monkeypatch.setattr(slow_queries, "SHARE", -1)
    monkeypatch.setattr(slow_queries, "UNSEEN", -1.0)
    for _ in range(5):
        assert LOOKING not in impatient.get(path, **{"Silkline-Live": "1"}).words
    assert LOOKING in impatient.get(path).words, "who opens it is not shown what is old"


@pytest.mark.parametrize("path", ["/dead/revive?crawl={}&status=many", "/dead?crawl={}&status=many&all=1"])
def test_what_cannot_be_meant_is_refused_at_once(impatient, own_crawl, path):
    answer = impatient.get(path.format(own_crawl.crawl))
    assert answer.status == 400
    assert "a status must be a number such as 503" in answer.words


def test_a_dashboard_that_ends_in_the_middle_of_a_count_leaves_nothing_behind(store, own_crawl):
    dashboard = app(store.url)
    dashboard.slow_queries = SlowQueries(patience=0)
    with Serving(dashboard) as serving:
        Visitor(serving.port).get(f"/dead/revive?crawl={own_crawl.crawl}&status=503")
    assert not [thread for thread in threading.enumerate() if thread is serving._thread]
    assert dashboard.slow_queries._asked == {}


# ── by itself ──
class Seeker:
    """Answers when it is told to; counts how often it is asked."""

    def __init__(self):
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.asked, self.fails = 0, False

    async def __call__(self):
        self.asked += 1
        self.was_asked.set()
        number = self.asked
        await self.may_answer.wait()
        if self.fails:
            raise OSError("out of reach")
        return number


async def test_what_is_sought_is_sought_once_however_many_ask():
    room, seek = SlowQueries(patience=0), Seeker()
    assert [await room.answer("how many", seek) for _ in range(3)] == [None] * 3
    seek.may_answer.set()
    room.patience = 5
    assert await asyncio.gather(*(room.answer("how many", seek) for _ in range(3))) == [1, 1, 1]
    assert seek.asked == 1


async def test_many_questions_are_answered_at_a_time():
    room, long, other = SlowQueries(patience=0), [Seeker() for _ in range(slow_queries.AT_ONCE)], Seeker()
    for number, seek in enumerate(long):
        await room.answer(number, seek)
    await room.answer("other", other)
    other.may_answer.set()
    await asyncio.gather(*(seek.was_asked.wait() for seek in long))
    assert other.asked == 0
    long[0].may_answer.set()
    room.patience = 5
    assert await room.answer("other", other) == 1


async def test_an_answer_grows_old(monkeypatch):
    room, seek = SlowQueries(), Seeker()
    monkeypatch.setattr(slow_queries, "SHARE", 1e9)
    seek.may_answer.set()
    assert await room.answer("how many", seek) == 1
    assert await room.answer("how many", seek) == 1
    monkeypatch.setattr(slow_queries, "SHARE", -1)
    assert await room.answer("how many", seek) == 2


async def test_an_answer_that_nobody_has_seen_is_kept_for_who_asks_again():
    room, seek = SlowQueries(patience=0), Seeker()
    assert await room.answer("how many", seek) is None
    seek.may_answer.set()
    await asyncio.wait([one.seeking for one in room._asked.values()])
    await asyncio.sleep(0.05)  # by far longer than it took
    assert await room.answer("how many", seek) == 1


async def test_an_answer_that_nobody_asks_for_any_more_is_forgotten(monkeypatch):
    room, seek, other = SlowQueries(), Seeker(), Seeker()
    seek.may_answer.set()
    other.may_answer.set()
    await room.answer("how many", seek)
    monkeypatch.setattr(slow_queries, "KEPT", -1.0)
    await room.answer("which", other)
    assert list(room._asked) == ["which"]


async def test_of_very_many_questions_those_asked_last_are_kept():
    room, seek = SlowQueries(patience=0), Seeker()
    for number in range(slow_queries.MOST + 20):
        await room.answer(number, seek)
    assert len(room._asked) <= slow_queries.MOST + 1
    assert slow_queries.MOST + 19 in room._asked
    await room.close()


async def test_a_failure_is_reported_and_then_it_is_tried_again():
    room, seek = SlowQueries(), Seeker()
    seek.fails = True
    seek.may_answer.set()
    with pytest.raises(OSError, match="out of reach"):
        await room.answer("how many", seek)
    seek.fails = False
    assert await room.answer("how many", seek) == 2


async def test_a_failure_that_nobody_saw_is_tried_again():
    room, seek = SlowQueries(patience=0), Seeker()
    seek.fails = True
    assert await room.answer("how many", seek) is None
    seek.may_answer.set()
    await asyncio.wait([one.seeking for one in room._asked.values()])
    seek.fails = False
    room.patience = 5
    assert await room.answer("how many", seek) == 2


async def test_a_client_that_waits_while_something_is_changed_is_ordered_to_ask_again():
    room, seek = SlowQueries(patience=5), Seeker()
    waiting = asyncio.create_task(room.answer("how many", seek))
    await seek.was_asked.wait()
    room.outdate()
    assert await waiting is None
    seek.may_answer.set()
    assert await room.answer("how many", seek) == 2


async def test_after_a_change_it_is_sought_again_and_who_looks_on_keeps_the_last_answer():
    room, seek = SlowQueries(patience=5), Seeker()
    seek.may_answer.set()
    assert await room.answer("how many", seek) == 1
    seek.may_answer.clear()
    room.patience = 0
    for _ in range(2):
        room.outdate()
        assert await room.answer("how many", seek, again=True) == 1
        assert await room.answer("how many", seek) is None
    seek.may_answer.set()
    room.patience = 5
    assert await room.answer("how many", seek, again=True) > 1
