"""Looking: explain, hosts, stats."""

from __future__ import annotations

import pytest

from silkline import Budget, Politeness, Request
from silkline.core.lease import State
from silkline.errors import ConfigError, InvalidUrl
from tests.contract.frontiers import page

URL = "https://a.example/x?a=1&b=2"

# ── explain ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_never_seen_is_explained(frontier):
    found = await frontier.admin.explain(URL)
    assert (found.state, found.lease, found.letter) == (None, None, None)
    assert "never seen" in found.text
    assert found.host.place == "unknown"


async def test_what_is_ready_is_explained(frontier):
    await frontier.enqueue([page(1), page(2), URL, page("high", priority=1)])
    found = await frontier.admin.explain(URL)
    assert found.state is State.READY
    assert "number 4 of 4 on its host, at priority 0" in found.text
    assert "waits for a worker" in found.text


async def test_what_is_leased_is_explained(frontier, clock):
    await frontier.enqueue(URL)
    [lease] = await frontier.claim()
    await frontier.retry(lease)
    await frontier.claim()
    found = await frontier.admin.explain(URL)
    assert found.state is State.LEASED
    assert "attempt 2 is in progress" in found.text
    assert (found.lease.url, found.lease.attempt, found.lease.expires) == (URL, 2, clock.seconds + 10)


async def test_what_has_landed_is_leased_until_it_is_settled(frontier):
    await frontier.enqueue([URL])
    leases = await frontier.claim()
    await frontier.vacate(leases)
    assert (await frontier.admin.explain(URL)).state is State.LEASED


async def test_what_is_delayed_is_explained(frontier, clock):
    await frontier.enqueue(Request(URL, not_before=clock.seconds + 60))
    found = await frontier.admin.explain(URL)
    assert found.state is State.DELAYED
    assert found.text == "delayed: it has a not_before time and is due in 60 s, at 2027-01-15 08:01:00 UTC."
    assert found.lease.attempt == 0


async def test_what_is_tried_again_is_explained(frontier):
    await frontier.enqueue(URL)
    [lease] = await frontier.claim()
    await frontier.retry(lease, after=60, reason="slow")
    found = await frontier.admin.explain(URL)
    assert (found.state, found.lease.attempt) == (State.DELAYED, 1)
    assert [trial.reason for trial in found.lease.history] == ["slow"]
    assert "attempt 2 is due in 60 s, at" in found.text
    assert found.text.endswith("after slow.")
    assert "attempt 2 of 5 is due" in (await frontier.admin.explain(URL, attempts=5)).text
    await frontier.enqueue(page("released"))
    [other] = await frontier.claim()
    await frontier.release(other, after=5)
    assert (await frontier.admin.explain(page("released"))).text.startswith("delayed: it was released")


async def test_what_is_dead_is_explained(frontier, clock):
    await frontier.enqueue(URL)
    [lease] = await frontier.claim()
    await frontier.bury(lease, "gone", 410)
    found = await frontier.admin.explain(URL)
    assert found.state is State.DEAD
    assert "gone" in found.text
    assert (found.letter.reason, found.letter.status, found.letter.request.url) == ("gone", 410, URL)


@pytest.mark.parametrize("seen", ["exact", "compact", "bloom"])
async def test_every_seen_filter_can_be_asked(open_crawl, seen):
    frontier = await open_crawl(seen=seen)
    assert (await frontier.admin.explain(URL)).state is None
    await frontier.enqueue(URL)
    assert (await frontier.admin.explain(URL)).state is State.READY
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    assert (await frontier.admin.explain(URL)).state is State.DONE


async def test_of_a_page_that_died_twice_the_last_time_is_reported(frontier, clock):
    for reason in ("at first", "in the end"):
        await frontier.enqueue(Request(URL, dont_filter=True))
        [lease] = await frontier.claim()
        await frontier.bury(lease, reason)
        clock.advance(5)
    assert (await frontier.admin.explain(URL)).text.count("after 1 attempt: in the end.") == 1


async def test_what_is_done_is_explained(frontier):
    await frontier.enqueue(URL)
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    assert (await frontier.admin.explain(URL)).state is State.DONE
    await frontier.forget(URL)
    assert (await frontier.admin.explain(URL)).state is None


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        (URL, "https://A.EXAMPLE/x?b=2&a=1#top"),
        ("https://a.example/%7Euser/x", "https://a.example/~user/x"),
        ("https://a.example/~user/x", "https://a.example/%7euser/x"),
        ("https://a.example/?q=%41", "https://a.example/?q=A"),
    ],
)
@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
async def test_another_spelling_finds_the_same_request(frontier, stored, asked, state):
    await frontier.enqueue([page(1), stored])
    leases = await frontier.claim(2) if state != "ready" else []
    if state == "delayed":
        await frontier.retry(leases[1], after=5)
    if state == "dead":
        await frontier.bury(leases[1], "no")
    assert (await frontier.admin.explain(asked)).state == state


async def test_requests_are_distinguished_by_method_and_body(frontier):
    await frontier.enqueue([Request(URL, method="POST", body=b"1"), page(2)])
    assert (await frontier.admin.explain(URL)).state is None
    assert (await frontier.admin.explain(Request(URL, method="POST", body=b"2"))).state is None
    assert (await frontier.admin.explain(Request(URL, method="POST", body=b"1"))).state is State.READY


async def test_what_has_an_identity_is_found_wherever_it_is(frontier):
    """What waits by its URL, because the identity is not stored; what is done by the identity alone."""
    asked = Request(URL, identity=b"mine")
    await frontier.enqueue(asked)
    assert (await frontier.admin.explain(asked)).state is State.READY
    assert (await frontier.admin.explain(URL)).state is State.READY
    [lease] = await frontier.claim(1)
    assert (await frontier.admin.explain(asked)).state is State.LEASED
    await frontier.retry(lease, after=60)
    assert (await frontier.admin.explain(asked)).state is State.DELAYED
    await frontier.admin.cancel("a.example")
    assert (await frontier.admin.explain(asked)).state is State.DONE
    assert (await frontier.admin.explain(URL)).state is None
    assert (await frontier.admin.explain(URL, identities=[b"other"])).state is None
    assert (await frontier.admin.explain(URL, identities=[b"other", b"mine"])).state is State.DONE


async def test_explaining_what_is_no_url_is_an_error(frontier):
    with pytest.raises(InvalidUrl):
        await frontier.admin.explain("nonsense")


async def test_it_is_reported_what_holds_a_ready_request_back(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=5, concurrency=1), lease=1000)
    await frontier.enqueue([page(1), URL])
    [lease] = await frontier.claim()
    assert "at its concurrency limit of 1" in (await frontier.admin.explain(URL)).text
    await frontier.release(lease, after=900)
    assert "opens in 5.0 s because of its delay of 5 s" in (await frontier.admin.explain(URL)).text
    await frontier.admin.set_host("a.example", block_until=clock.seconds + 60)
    assert "opens in 60.0 s because it is blocked" in (await frontier.admin.explain(URL)).text
    await frontier.admin.pause("a.example")
    assert "The host is paused" in (await frontier.admin.explain(URL)).text
    await frontier.admin.resume("a.example")
    await frontier.admin.pause()
    assert "The crawl is paused" in (await frontier.admin.explain(URL)).text


async def test_the_worker_that_holds_a_request_is_named_if_it_reports(frontier):
    await frontier.enqueue(URL)
    [lease] = await frontier.claim()
    await frontier.internal.join("idle", info={"urls": []})
    assert (await frontier.admin.explain(URL)).worker is None
    await frontier.internal.join("w-7", info={"urls": [lease.url]})
    found = await frontier.admin.explain(URL)
    assert found.worker == "w-7"
    assert found.text.startswith("leased by worker w-7: attempt 1 is in progress; the lease expires at 2027-")


async def test_a_crawl_delay_is_reported_as_the_sites_own_wish(open_crawl):
    frontier = await open_crawl(politeness=Politeness(delay=1))
    await frontier.keep_robots(URL, b"", crawl_delay=5)
    await frontier.enqueue([page(1), URL])
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    assert "opens in 5.0 s because robots.txt asks for a Crawl-delay of 5 s" in (await frontier.admin.explain(URL)).text


async def test_who_paused_is_reported(frontier):
    await frontier.enqueue(URL)
    await frontier.admin.pause()
    await frontier.internal.append_audit("ana@desk", "pause")
    assert "The crawl is paused (by ana@desk at 2027-01-15 08:00:00 UTC)." in (await frontier.admin.explain(URL)).text
    await frontier.admin.resume()
    await frontier.admin.pause("a.example")
    await frontier.internal.append_audit("bo@lab", "pause", "a.example")
    assert "The host is paused (by bo@lab" in (await frontier.admin.explain(URL)).text


async def test_a_pause_that_was_resumed_is_not_named_as_the_cause_of_a_later_one(frontier):
    await frontier.enqueue(URL)
    for act in ("pause", "resume"):
        await frontier.internal.append_audit("ana@desk", act)
        await frontier.internal.append_audit("ana@desk", act, "a.example")
    await frontier.admin.pause("a.example")
    assert "The host is paused." in (await frontier.admin.explain(URL)).text
    await frontier.admin.pause()
    assert "The crawl is paused." in (await frontier.admin.explain(URL)).text


async def test_what_would_be_refused_is_reported(open_crawl):
    frontier = await open_crawl(budget=Budget(pages_per_host=1))
    await frontier.enqueue(page(1))
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    assert "the host's budget of 1 pages is spent" in (await frontier.admin.explain(URL)).text
    await frontier.admin.cancel()
    assert "refused: the crawl is cancelled" in (await frontier.admin.explain(URL)).text


async def test_what_robots_txt_forbids_is_reported_with_its_line(frontier, crawl):
    text = "User-agent: *\nDisallow: /p\nDisallow: /private*\nAllow: /private/ok\n\nUser-agent: friend\nDisallow: /x\n"
    private = "https://a.example/private/x"
    assert "robots" not in (await frontier.admin.explain(private)).text
    await frontier.keep_robots(URL, text.encode())
    await frontier.enqueue([private, URL])
    assert (
        f"robots.txt forbids it for {crawl} (line 3: Disallow: /private*)."
        in (await frontier.admin.explain(private)).text
    )
    assert "robots" not in (await frontier.admin.explain("https://a.example/private/ok")).text
    assert "robots" not in (await frontier.admin.explain(URL)).text
    assert "for friend (line 7: Disallow: /x)" in (await frontier.admin.explain(URL, agent="Friend/2.0 (x)")).text


# ── acts of operators ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_acts_are_reported_newest_first(frontier, clock):
    assert await frontier.admin.audit() == []
    await frontier.internal.append_audit("ana@desk", "pause")
    clock.advance(1)
    await frontier.internal.append_audit("bo\nlab", "revive", "status 503\n" + "x" * 1000)
    newest, oldest = await frontier.admin.audit()
    assert oldest == (clock.seconds - 1, "ana@desk", "pause", "")
    assert (newest.time, newest.by, newest.what, len(newest.about)) == (clock.seconds, "bo lab", "revive", 500)
    assert await frontier.admin.audit(limit=1) == [newest]


@pytest.mark.parametrize("wrong", [("", "pause"), ("ana", "")])
async def test_an_act_needs_somebody_and_something(frontier, wrong):
    with pytest.raises(ConfigError):
        await frontier.internal.append_audit(*wrong)
    with pytest.raises(ConfigError):
        await frontier.admin.audit(limit=0)


async def test_a_block_that_is_over_holds_nothing_back(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=50, concurrency=1), lease=1000)
    await frontier.admin.set_host("a.example", block_until=clock.seconds + 1)
    clock.advance(2)
    await frontier.enqueue([page(1), URL])
    [lease] = await frontier.claim()
    await frontier.complete(lease)
    assert "because of its delay" in (await frontier.admin.explain(URL)).text


# ── hosts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_hosts_tell_where_they_stand(open_crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=1), lease=1000)
    await frontier.enqueue([page(number, "busy.example") for number in range(3)])
    await frontier.enqueue([page(number, "waiting.example") for number in range(4)])
    await frontier.enqueue([page(1, "resting.example")])
    leases = {lease.host: lease for lease in await frontier.claim(10)}
    await frontier.complete(leases["waiting.example"])
    await frontier.complete(leases["resting.example"])
    await frontier.enqueue([page(1, "ready.example"), page(2, "ready.example", priority=5)])
    await frontier.admin.pause("paused.example")
    states = {state.host: state for state in await frontier.admin.hosts()}
    assert {host: (state.place, state.queued, state.leased) for host, state in states.items()} == {
        "waiting.example": ("waiting", 3, 0),
        "busy.example": ("busy", 2, 1),
        "ready.example": ("ready", 2, 0),
        "paused.example": ("paused", 0, 0),
    }
    assert states["waiting.example"].opens_in == 10
    assert len(await frontier.admin.hosts(limit=2)) == 2
    rows = await frontier.admin.hosts("resting.example", "new.example", "busy.example")
    assert [(state.host, state.place, state.opens_in) for state in rows] == [
        ("resting.example", "resting", 10),
        ("new.example", "unknown", 0),
        ("busy.example", "busy", 0),
    ]
    clock.advance(10)
    assert (await frontier.admin.hosts("resting.example"))[0].place == "unknown"


async def test_a_host_shows_the_pace_that_holds_for_it(open_crawl):
    frontier = await open_crawl(
        politeness=Politeness(delay=1.5, concurrency=4, burst=2), budget=Budget(pages_per_host=3)
    )
    [state] = await frontier.admin.hosts("a.example")
    assert (state.delay, state.concurrency, state.burst, state.blocked_until, state.paused, state.pages) == (
        1.5, 3, 2, None, False, 0,
    )  # fmt: skip


@pytest.mark.parametrize("wrong", ["", None])
async def test_a_host_that_is_none_is_refused(frontier, wrong):
    with pytest.raises(ConfigError):
        await frontier.admin.hosts(wrong)


# ── stats ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_stats_count_everything(open_crawl, crawl, clock):
    frontier = await open_crawl(politeness=Politeness(delay=10, concurrency=2), capacity=100)
    hosts = [f"h{number}.example" for number in range(6)]
    await frontier.enqueue([page(number, host) for host in hosts for number in range(2)])
    await frontier.enqueue(page("later", not_before=clock.seconds + 9))
    leases = await frontier.claim(4)
    await frontier.complete(leases[0])
    await frontier.bury(leases[1], "no")
    await frontier.retry(leases[2], after=5)
    await frontier.admin.cancel("h5.example")
    stats = await frontier.admin.stats()
    assert (stats.crawl, stats.state, stats.shards, stats.capacity, stats.full) == (crawl, "open", 1, 100, False)
    assert (stats.accepted, stats.seen) == (13, 13)
    assert (stats.ready, stats.delayed, stats.leased, stats.done, stats.dead, stats.discarded) == (6, 2, 1, 1, 1, 2)
    assert (stats.hosts_ready, stats.hosts_waiting, stats.overflow, stats.rescued) == (1, 4, 0, 0)
    assert stats.pending == 8
    assert stats.conserved


async def test_the_filters_own_doubt_is_reported(open_crawl, crawl):
    exact = await open_crawl()
    bloom = await open_crawl(crawl=f"{crawl}-b", seen="bloom:0.01,1000")
    for frontier in (exact, bloom):
        await frontier.enqueue([page(number) for number in range(100)])
    assert (await exact.admin.stats()).expected_skips < 1e-12
    assert 0.5 < (await bloom.admin.stats()).expected_skips <= 1
