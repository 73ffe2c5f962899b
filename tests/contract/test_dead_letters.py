"""Requests that were given up."""

from __future__ import annotations

import pytest

from silkline import Admission, Bury, Politeness, Request
from silkline.core.lease import FailedAttempt
from silkline.errors import ConfigError
from tests.contract.frontiers import page, paths


async def bury_all(frontier, reason="no", status=None):
    leases = await frontier.claim(1000)
    await frontier.settle([(lease, Bury(reason, status)) for lease in leases])
    return leases


def urls(letters):
    return [letter.request.url.partition("//")[2] for letter in letters]


async def test_a_dead_letter_reports_its_story(frontier, clock):
    await frontier.enqueue(Request("https://a.example/x", priority=4, meta={"n": 1}))
    began = clock.seconds
    [lease] = await frontier.claim()
    await frontier.retry(lease, reason="slow", status=503)
    clock.advance(2)
    [lease] = await frontier.claim()
    await frontier.bury(lease, "gone\nfor good", 410)
    [letter] = await frontier.admin.dead()
    assert letter.request == Request("https://a.example/x", priority=4, meta={"n": 1})
    assert (letter.reason, letter.status, letter.host) == ("gone for good", 410, "a.example")
    assert (letter.attempts, letter.crashes, letter.first, letter.last) == (2, 0, began, clock.seconds)
    assert letter.history == (FailedAttempt(began, "slow", 503), FailedAttempt(clock.seconds, "gone for good", 410))
    stats = await frontier.admin.stats()
    assert (stats.dead, stats.leased, stats.done) == (1, 0, 0)


async def test_the_newest_letter_comes_first(frontier, clock):
    for number in range(5):
        await frontier.enqueue(page(number))
        await bury_all(frontier)
        clock.advance(1)
    assert urls(await frontier.admin.dead()) == [f"a.example/{number}" for number in (4, 3, 2, 1, 0)]
    assert urls(await frontier.admin.dead(limit=2)) == ["a.example/4", "a.example/3"]


async def test_a_look_may_be_confined_to_the_newest_letters(frontier, clock):
    for number in range(5):
        await frontier.enqueue([page(number, f"{host}.example") for host in "ab"])
        await bury_all(frontier, status=404 if number % 2 else 410)
        clock.advance(1)
    assert {letter.status for letter in await frontier.admin.dead(newest=2)} == {410}
    assert len(await frontier.admin.dead(newest=4, status=404)) == 2
    assert await frontier.admin.dead(newest=2, status=404) == []
    assert urls(await frontier.admin.dead(newest=2, status=404, host="a.example")) == ["a.example/3"]
    assert len(await frontier.admin.dead(newest=10, limit=3, status=404)) == 3


@pytest.mark.parametrize("newest", [0, -1, 2.5, "all", True])
async def test_a_number_of_newest_letters_that_means_nothing_is_refused(frontier, newest):
    with pytest.raises(ConfigError, match="newest"):
        await frontier.admin.dead(newest=newest)


async def test_the_newest_letter_of_a_host_comes_first_whenever_it_was_claimed(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=0, concurrency=9), lease=1000)
    await frontier.enqueue([page(number, host) for number in range(4) for host in ("a.example", "b.example")])
    leases = {lease.url: lease for lease in await frontier.claim(8)}
    for number in (2, 0, 3, 1):
        for host in ("b.example", "a.example"):
            await frontier.bury(leases[f"https://{host}/{number}"], "no")
        clock.advance(1)
    assert urls(await frontier.admin.dead(host="a.example")) == [f"a.example/{number}" for number in (1, 3, 0, 2)]
    assert urls(await frontier.admin.dead(host="b.example", limit=2)) == ["b.example/1", "b.example/3"]
    assert urls(await frontier.admin.dead(host="b.example", older_than=2, limit=1)) == ["b.example/3"]


async def test_hosts_whose_names_begin_alike_are_distinguished(frontier):
    hosts = ["a.example", "a.example.org", "aa.example", "a.exampl", "a.example-b"]
    await frontier.enqueue([page(1, host) for host in hosts])
    await bury_all(frontier)
    for host in hosts:
        assert urls(await frontier.admin.dead(host=host)) == [f"{host}/1"]
        assert await frontier.admin.dead_groups("host", name=host) == [(host, 1)]


async def test_a_dead_request_stays_seen(frontier):
    await frontier.enqueue(page(1))
    await bury_all(frontier)
    assert await frontier.enqueue(page(1)) == [Admission.SEEN]
    assert await frontier.claim() == []
    assert await frontier.finished()


@pytest.fixture
async def cemetery(frontier, clock):
    """One letter every ten seconds; the first is 50 seconds old, the last 10."""
    kinds = [
        ("a", "timeout", None),
        ("b", "HTTP 503", 503),
        ("a", "HTTP 404", 404),
        ("c", "Timeout!", None),
        ("a", "503", 503),
    ]
    for number, (host, reason, status) in enumerate(kinds):
        await frontier.enqueue(page(number, f"{host}.example"))
        await bury_all(frontier, reason, status)
        clock.advance(10)
    return frontier


FILTERS = [
    ({}, "01234"),
    ({"host": "a.example"}, "024"),
    ({"host": "nowhere.example"}, ""),
    ({"reason": "timeout"}, "03"),
    ({"reason": "TIME"}, "03"),
    ({"reason": "503"}, "14"),
    ({"reason": "%d"}, ""),
    ({"reason": "."}, ""),
    ({"status": 503}, "14"),
    ({"status": 40}, ""),
    ({"older_than": 30}, "012"),
    ({"newer_than": 30}, "234"),
    ({"older_than": 20, "newer_than": 40}, "123"),
    ({"older_than": 0}, "01234"),
    ({"older_than": 1000}, ""),
    ({"host": "a.example", "status": 503}, "4"),
    ({"host": "a.example", "reason": "timeout", "older_than": 45}, "0"),
    ({"host": "a.example", "older_than": 30}, "02"),
    ({"host": "a.example", "newer_than": 30}, "24"),
    ({"host": "a.example", "older_than": 20, "newer_than": 40}, "2"),
    ({"host": "a.example", "older_than": 40, "newer_than": 20}, ""),
    ({"host": "a.exampl"}, ""),
    ({"host": "a.example", "older_than": 1e12}, ""),
    ({"host": "a.example", "newer_than": 1e12}, "024"),
]


@pytest.mark.parametrize(("which", "expected"), FILTERS)
async def test_letters_can_be_chosen(cemetery, which, expected):
    found = await cemetery.admin.dead(**which)
    assert sorted(letter.request.url[-1] for letter in found) == list(expected)


@pytest.mark.parametrize(("which", "expected"), FILTERS)
async def test_the_chosen_ones_are_revived_and_no_others(cemetery, which, expected):
    assert await cemetery.admin.revive(**which) == len(expected)
    assert sorted(lease.url[-1] for lease in await cemetery.claim(10)) == list(expected)
    assert len(await cemetery.admin.dead()) == 5 - len(expected)


@pytest.mark.parametrize(("which", "expected"), FILTERS)
async def test_the_chosen_ones_are_purged_and_no_others(cemetery, which, expected):
    assert await cemetery.admin.purge(**which) == len(expected)
    assert await cemetery.claim(10) == []
    left = {letter.request.url[-1] for letter in await cemetery.admin.dead()}
    assert left == set("01234") - set(expected)
    stats = await cemetery.admin.stats()
    assert (stats.discarded, stats.dead) == (len(expected), 5 - len(expected))


async def test_one_letter_is_chosen_by_its_id(cemetery):
    third = (await cemetery.admin.dead())[2]
    assert await cemetery.admin.dead(id=third.id) == [third]
    assert await cemetery.admin.dead(id=third.id, host="b.example") == []
    assert await cemetery.admin.dead(id=third.id, older_than=1000) == []
    assert await cemetery.admin.dead(id=third.id, newer_than=1) == []
    assert await cemetery.admin.dead(id="0-123") == []
    assert await cemetery.admin.revive(id=third.id, older_than=1000) == 0
    assert await cemetery.admin.revive(id=third.id) == 1
    assert await cemetery.admin.revive(id=third.id) == 0
    assert paths(await cemetery.claim(10)) == ["2"]


@pytest.mark.parametrize("verb", ["dead", "revive", "purge"])
@pytest.mark.parametrize("wrong", ["x", "0", "0-", "-1", "a-1", "0-1-1"])
async def test_an_id_that_cannot_be_one_is_refused(frontier, verb, wrong):
    with pytest.raises(ConfigError):
        await getattr(frontier.admin, verb)(id=wrong)


async def test_a_revived_request_has_a_clean_slate(frontier, clock):
    await frontier.enqueue(Request("https://a.example/x", priority=4, meta={"n": 1}))
    for _ in range(4):
        await frontier.claim()
        clock.advance(10)
    await frontier.claim()
    assert (await frontier.admin.dead())[0].reason == "crashed"
    assert await frontier.admin.revive() == 1
    [lease] = await frontier.claim()
    assert (lease.attempt, lease.crashes, lease.suspect, lease.first) == (1, 0, False, clock.seconds)
    assert lease.request == Request("https://a.example/x", priority=4, meta={"n": 1})
    await frontier.complete(lease)
    assert await frontier.finished()


async def test_revived_requests_are_as_polite_as_others(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10))
    await frontier.enqueue([page(1), page(2)])
    [lease] = await frontier.claim()
    await frontier.bury(lease, "no")
    assert await frontier.admin.revive() == 1
    assert await frontier.claim() == []
    clock.advance(10)
    assert paths(await frontier.claim(10)) == ["2"]


async def test_many_letters_are_revived_in_bounded_steps(frontier):
    await frontier.enqueue([page(number, f"h{number % 3}.example") for number in range(2500)])
    while await bury_all(frontier, "even"):
        pass
    assert len(await frontier.admin.dead(limit=2200)) == 2200
    assert await frontier.admin.revive(host="h1.example") == 833
    assert await frontier.admin.revive(reason="EVEN") == 2500 - 833
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.dead) == (2500, 0)


async def test_a_purged_url_stays_seen_until_it_is_forgotten(frontier):
    await frontier.enqueue(page(1))
    await bury_all(frontier)
    assert await frontier.admin.purge() == 1
    assert await frontier.enqueue(page(1)) == [Admission.SEEN]
    assert await frontier.forget(page(1)) == 1
    assert await frontier.enqueue(page(1)) == [Admission.ADDED]


async def test_nothing_is_revived_in_a_cancelled_crawl(frontier):
    await frontier.enqueue(page(1))
    await bury_all(frontier)
    await frontier.admin.cancel()
    assert await frontier.admin.revive() == 1
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.dead, stats.discarded) == (0, 0, 1)


@pytest.mark.parametrize("verb", ["dead", "revive", "purge"])
@pytest.mark.parametrize("wrong", [{"hots": "a.example"}, {"host": ""}, {"age": 3}])
async def test_a_filter_that_means_nothing_is_refused_and_not_taken_for_all(frontier, verb, wrong):
    await frontier.enqueue(page(1))
    await bury_all(frontier)
    with pytest.raises(ConfigError):
        await getattr(frontier.admin, verb)(**wrong)
    assert len(await frontier.admin.dead()) == 1


# ── groups ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_dead_letters_are_grouped_by_reason_and_by_host(cemetery):
    assert await cemetery.admin.dead_groups("host") == [("a.example", 3), ("b.example", 1), ("c.example", 1)]
    assert await cemetery.admin.dead_groups("host", limit=1) == [("a.example", 3), ("", 2)]
    assert await cemetery.admin.dead_groups("host", name="a.example") == [("a.example", 3)]
    assert await cemetery.admin.dead_groups("host", name="z.example") == [("z.example", 0)]
    assert await cemetery.admin.dead_groups(name="HTTP 404") == [("HTTP 404", 1)]
    reasons = [("503", 1), ("HTTP 404", 1), ("HTTP 503", 1), ("Timeout!", 1), ("timeout", 1)]
    assert await cemetery.admin.dead_groups() == reasons
    await cemetery.admin.revive(host="a.example")
    assert await cemetery.admin.dead_groups("host") == [("b.example", 1), ("c.example", 1)]
    await cemetery.admin.purge()
    assert await cemetery.admin.dead_groups() == await cemetery.admin.dead_groups("host") == []


async def test_addresses_in_a_reason_do_not_tell_groups_apart(frontier):
    await frontier.enqueue([page(number) for number in range(3)])
    for number, lease in enumerate(await frontier.claim(3)):
        await frontier.bury(lease, f"a loop back to https://b.example/{number}?ü again" + "é" * 200)
    [(name, letters)] = await frontier.admin.dead_groups()
    assert letters == 3
    assert name.startswith("a loop back to … again")
    assert len(name.encode()) <= 200
    assert len(await frontier.admin.dead(reason=name)) == 3
    assert (await frontier.admin.count_dead(reason="back to …")).reasons == [(name, 3)]


@pytest.mark.parametrize(
    ("reason", "group"),
    [
        ("dns: no address for {host}: Name or service not known", "dns: no address for …: Name or service not known"),
        ("connect: no connection to {host}:443: connection refused", "connect: no connection to …: connection refused"),
        (
            "timeout: {host} did not finish within 30 s (reading the body, {n},114 bytes so far)",
            "timeout: … did not finish within 30 s (reading the body, … bytes so far)",
        ),
        (
            "forbidden_address: {host} has the private address 10.0.0.{n}",
            "forbidden_address: … has the private address …",
        ),
    ],
)
async def test_hosts_in_a_reason_do_not_tell_groups_apart(open_crawl, reason, group):
    frontier = await open_crawl(shards=2)
    await frontier.enqueue([Request(f"https://h{number}.example/") for number in range(30)])
    for number, lease in enumerate(await frontier.claim(30)):
        await frontier.bury(lease, reason.format(host=lease.host, n=number))
    assert await frontier.admin.dead_groups() == [(group, 30)]
    assert (await frontier.admin.count_dead()).reasons == [(group, 30)]
    assert (await frontier.admin.count_dead(host="h7.example", reason=group)).reasons == [(group, 1)]
    assert (await frontier.admin.dead_examples([group]))[group].host in (await frontier.admin.dead(limit=1))[0].reason
    assert await frontier.admin.purge(reason=group) == 30
    assert await frontier.admin.dead_groups() == []


@pytest.mark.parametrize(
    ("reason", "group"),
    [
        ("handler product: KeyError (books.py:14): 'price 7'", "handler product: KeyError (books.py:14)"),
        ("handler product: a.b.Odd (my books.py:1): x: y", "handler product: a.b.Odd (my books.py:1)"),
        ("fetching: KeyError: 'a (b.py:3)'", "fetching: KeyError: 'a (b.py:3)'"),
        ("status 503", "status 503"),
    ],
)
async def test_failures_of_code_are_grouped_by_place_exception_and_line_with_an_example(frontier, reason, group):
    await frontier.enqueue([page(number) for number in range(3)])
    leases = await frontier.claim(3)
    await frontier.bury(leases[0], f"another {reason}")
    for lease in leases[1:]:
        await frontier.bury(lease, reason)
    assert (group, 2) in await frontier.admin.dead_groups()
    assert (await frontier.admin.dead_groups(name=group)) == [(group, 2)]
    examples = await frontier.admin.dead_examples([group, "unknown", ""])
    assert list(examples) == [group]
    assert examples[group].reason == reason


async def test_what_crashed_is_a_group_too(open_crawl, clock):
    frontier = await open_crawl(lease=1)
    await frontier.enqueue(page(1))
    for _ in range(5):
        await frontier.claim()
        clock.advance(2)
    assert await frontier.admin.dead_groups() == [("crashed", 1)]


@pytest.mark.parametrize(("which", "found"), FILTERS)
async def test_what_matches_is_counted_before_anything_is_done(cemetery, which, found):
    counted = await cemetery.admin.count_dead(**which)
    assert counted.total == len(found)
    assert sum(letters for _, letters in counted.reasons) == sum(letters for _, letters in counted.hosts) == len(found)
    assert await cemetery.admin.revive(**which) == len(found)


@pytest.mark.parametrize("wrong", [{"by": "status"}, {"limit": 0}, {"limit": 100_000}])
async def test_groups_of_another_kind_are_refused(frontier, wrong):
    with pytest.raises(ConfigError):
        await frontier.admin.dead_groups(**wrong)


async def all_pages(frontier, limit, **which):
    found, after = [], ""
    while some := await frontier.admin.dead(limit=limit, after=after, **which):
        assert len(some) <= limit
        found += some
        after = some[-1].position
    return found


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("limit", [1, 4, 60, 1000])
async def test_letters_are_read_page_by_page_also_those_of_one_millisecond(open_crawl, clock, shards, limit):
    frontier = await open_crawl(shards=shards)
    await frontier.enqueue([f"https://h{number % 7}.example/{number}" for number in range(120)])
    leases = await frontier.claim(120)
    await frontier.settle([(lease, Bury("HTTP 404", 404)) for lease in leases[:90]])
    clock.advance(1)
    await frontier.settle([(lease, Bury("HTTP 503", 503)) for lease in leases[90:]])
    found = await all_pages(frontier, limit)
    assert len({letter.id for letter in found}) == len(found) == 120
    assert [letter.last for letter in found] == sorted((letter.last for letter in found), reverse=True)
    assert [letter.id for letter in found] == [letter.id for letter in await frontier.admin.dead(limit=1000)]
    assert {letter.status for letter in await all_pages(frontier, limit, status=404)} == {404}
    assert len(await all_pages(frontier, limit, status=404)) == 90
    assert {letter.host for letter in await all_pages(frontier, limit, host="h3.example")} == {"h3.example"}


async def test_new_and_revived_letters_do_not_disturb_the_next_page(frontier, clock):
    await frontier.enqueue([f"https://a.example/{number}" for number in range(12)])
    leases = await frontier.claim(12)
    for lease in leases[:10]:
        await frontier.bury(lease, "no")
        clock.advance(1)
    first = await frontier.admin.dead(limit=4)
    await frontier.settle([(lease, Bury("late")) for lease in leases[10:]])
    await frontier.admin.revive(id=first[-1].id)
    rest = await frontier.admin.dead(limit=100, after=first[-1].position)
    assert [letter.url.rpartition("/")[2] for letter in rest] == ["5", "4", "3", "2", "1", "0"]


@pytest.mark.parametrize("wrong", ["x", "1", "1:2", "-1:0-1", "0-1"])
async def test_a_page_continues_only_after_a_letter(frontier, wrong):
    with pytest.raises(ConfigError, match="position of a dead letter"):
        await frontier.admin.dead(after=wrong)


async def test_requests_that_were_never_queued_can_be_added(frontier, clock):
    assert await frontier.internal.add_dead([(page(1), "not\nJSON"), (page(2, "b.example"), "too long")])
    letters = {letter.url: letter for letter in await frontier.admin.dead()}
    assert {url: letter.reason for url, letter in letters.items()} == {
        page(1).url: "not JSON",
        page(2, "b.example").url: "too long",
    }
    assert (letters[page(1).url].attempts, letters[page(1).url].first) == (0, clock.seconds)
    stats = await frontier.admin.stats()
    assert (stats.accepted, stats.dead, stats.seen, stats.conserved) == (2, 2, 0, True)
    assert await frontier.admin.revive(host="b.example") == 1
    assert [lease.url for lease in await frontier.claim(5)] == [page(2, "b.example").url]
    await frontier.admin.cancel()
    assert not await frontier.internal.add_dead([(page(3), "late")])
