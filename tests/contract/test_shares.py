"""No host may take all of the capacity: there is room for others, however much one finds."""

import pytest

from silkline import Admission, Complete, Politeness, Request
from silkline.errors import ConfigError
from silkline.frontier.overflow import SqliteOverflow
from silkline.frontier.store.settings import LEAST_HOST_SHARE
from silkline.frontier.verbs.enqueue import TOO_MANY_ON_DISK

AT_ONCE = Politeness(delay=0, concurrency=9000)
CAPACITY = 4 * LEAST_HOST_SHARE
HALF = CAPACITY // 2


def pages(host, count, start=0):
    return [f"https://{host}.example/{number}" for number in range(start, start + count)]


@pytest.fixture
async def crowded(open_crawl):
    """A crawl in which one host has found more than its share."""
    frontier = await open_crawl(capacity=CAPACITY, politeness=AT_ONCE)
    await frontier.enqueue(pages("trap", CAPACITY))
    return frontier


async def test_a_host_alone_may_take_half_of_the_capacity(crowded):
    stats = await crowded.admin.stats()
    assert (stats.ready, stats.turned_away, stats.over_share, stats.full) == (HALF, HALF, HALF, False)


async def test_other_hosts_still_get_in(crowded):
    assert set(await crowded.enqueue(pages("good", 500))) == {Admission.ADDED}
    assert set(await crowded.enqueue(pages("trap", 500, CAPACITY))) == {Admission.FULL}


async def test_what_was_seen_is_still_known(crowded):
    assert set(await crowded.enqueue(pages("trap", 10))) == {Admission.SEEN}


async def test_hosts_that_have_much_waiting_share_alike_and_leave_room(open_crawl):
    frontier = await open_crawl(capacity=6 * LEAST_HOST_SHARE, politeness=AT_ONCE)
    for start in range(0, 3000, 100):
        for host in ("one", "two"):
            await frontier.enqueue(pages(host, 100, start))
    one, two = await frontier.admin.hosts("one.example", "two.example")
    assert abs(one.queued - two.queued) <= 200
    assert one.queued == pytest.approx(2 * LEAST_HOST_SHARE, abs=200)
    assert not (await frontier.admin.stats()).full


async def test_a_host_with_few_requests_is_never_turned_away_while_there_is_room(open_crawl):
    frontier = await open_crawl(capacity=LEAST_HOST_SHARE, politeness=AT_ONCE)
    answers = await frontier.enqueue(pages("small", LEAST_HOST_SHARE + 1))
    assert answers.count(Admission.ADDED) == LEAST_HOST_SHARE
    assert (await frontier.admin.stats()).over_share == 0


async def test_the_share_is_a_setting(open_crawl):
    frontier = await open_crawl(capacity=CAPACITY, host_share=1.0, politeness=AT_ONCE)
    assert set(await frontier.enqueue(pages("alone", CAPACITY))) == {Admission.ADDED}
    with pytest.raises(ConfigError, match="host_share"):
        await open_crawl(crawl="other", host_share=1.5)


async def test_there_is_room_again_when_some_are_done(crowded):
    leases = await crowded.claim(10)
    await crowded.settle([(lease, Complete()) for lease in leases])
    answers = await crowded.enqueue(pages("trap", 100, CAPACITY))
    assert answers.count(Admission.ADDED) == 10


@pytest.mark.parametrize("seen", ["exact", "compact", "bloom"])
@pytest.mark.parametrize("order", ["fifo", "lifo"])
async def test_what_found_no_room_leaves_no_trace_and_may_be_offered_again(open_crawl, seen, order):
    """Above the share a request is pushed to see how many wait, and taken back: the queue holds those that were told ADDED."""
    frontier = await open_crawl(capacity=CAPACITY, politeness=AT_ONCE, seen=seen, order=order)
    await frontier.enqueue(pages("trap", HALF))
    late = pages("trap", 3, CAPACITY)
    for _ in range(2):
        answers = await frontier.enqueue([late[0], *pages("good", 1), late[1], pages("trap", 1)[0], late[2]])
        assert [answers[place] for place in (0, 2, 3, 4)] == [Admission.FULL] * 2 + [Admission.SEEN, Admission.FULL]
    stats = await frontier.admin.stats()
    assert (stats.ready, stats.accepted, stats.seen, stats.over_share) == (HALF + 1, HALF + 1, HALF + 1, 6)
    leases = [lease for _ in range(3) for lease in await frontier.claim(1000)]
    expected = pages("trap", HALF)[:: -1 if order == "lifo" else 1]
    assert [lease.url for lease in leases if lease.host.startswith("trap")] == expected
    await frontier.settle([(lease, Complete()) for lease in leases[:1000]])
    await frontier.settle([(lease, Complete()) for lease in leases[1000:]])
    assert list(await frontier.enqueue(late)) == [Admission.ADDED] * 3


async def test_requests_of_all_lanes_are_counted(open_crawl):
    frontier = await open_crawl(capacity=CAPACITY, politeness=AT_ONCE)
    urgent = [Request(url, priority=5) for url in pages("trap", HALF - 10)]
    await frontier.enqueue([*urgent, *pages("trap", 10, CAPACITY)])
    assert list(await frontier.enqueue(pages("trap", 2, 2 * CAPACITY))) == [Admission.FULL] * 2
    answers = await frontier.enqueue(
        [*pages("good", 1), Request("https://good.example/u", priority=1), *pages("trap", 1, -1)]
    )
    assert list(answers) == [Admission.ADDED, Admission.ADDED, Admission.FULL]


async def test_a_page_whose_links_found_no_room_goes_behind_the_others_of_its_host(crowded):
    """It is not fetched again before them, to do not fit again."""
    [page] = await crowded.claim(1)
    outcome = await crowded.complete(page, links=pages("trap", 5, CAPACITY))
    assert outcome.postponed == [page]
    stats = await crowded.admin.stats()
    assert (stats.ready, stats.delayed) == (HALF + 1, 0), "the place of the page was free for one of its links"
    left = [lease.url for _ in range(3) for lease in await crowded.claim(1000)]
    assert left[-1] == page.url
    assert left.count(page.url) == 1


async def test_hosts_and_explain_tell_it(crowded):
    trap, good = await crowded.admin.hosts("trap.example", "good.example")
    assert (trap.has_share, good.has_share) == (True, False)
    told = (await crowded.admin.explain(pages("trap", 1, CAPACITY)[0])).text
    assert f"It would not fit: the host has reached its share of the capacity, with {HALF:,} waiting requests." in told
    assert "no room" not in (await crowded.admin.explain("https://good.example/")).text


async def test_links_over_the_share_wait_on_disk_and_come_in_when_there_is_room(open_crawl, tmp_path):
    frontier = await open_crawl(capacity=CAPACITY, politeness=AT_ONCE, overflow=tmp_path / "overflow.db")
    await frontier.enqueue("https://trap.example/start")
    [start] = await frontier.claim(1)
    outcome = await frontier.complete(start, links=pages("trap", HALF + 300) + pages("good", 10))
    assert outcome.links[-310:] == [Admission.FULL] * 300 + [Admission.ADDED] * 10
    assert outcome.postponed == []
    leases = await frontier.claim(1000)
    await frontier.settle([(lease, Complete()) for lease in leases])
    for _ in range(3):
        leases = await frontier.claim(1000, wait=1.5)
        await frontier.settle([(lease, Complete()) for lease in leases])
    stats = await frontier.admin.stats()
    assert (stats.done, stats.overflow) == (HALF + 300 + 10 + 1, 0)


async def test_links_that_are_too_many_for_the_disk_are_refused_with_a_reason(open_crawl, tmp_path):
    store = SqliteOverflow(tmp_path / "overflow.db", per_host=20)
    frontier = await open_crawl(capacity=CAPACITY, politeness=AT_ONCE, overflow=store)
    answers = await frontier.enqueue(pages("trap", HALF + 25), spill=True)
    assert answers[-25:] == [Admission.FULL] * 20 + [Admission.REFUSED] * 5
    assert {refusal.reason for refusal in answers.refusals} == {TOO_MANY_ON_DISK}
    assert [refusal.position for refusal in answers.refusals] == list(range(HALF + 20, HALF + 25))
    [page] = await frontier.claim(1)
    outcome = await frontier.complete(page, links=["https://good.example/", *pages("trap", 2, CAPACITY)])
    assert outcome.links == [Admission.ADDED, Admission.ADDED, Admission.REFUSED]
    assert [refusal.position for refusal in outcome.links.refusals] == [2]
    assert (await frontier.admin.stats()).done == 1
