"""The real frontier against its model: whatever is done, both answer the same, and the promises hold."""

from __future__ import annotations

import itertools
import os

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from silkline import Budget, Bury, Complete, Politeness, Release, Request, RetryIn, SyncFrontier
from silkline.core.revisit import LastVisit
from silkline.core.verdict import NextVisit, Strike, Suspect
from silkline.errors import SilklineError
from silkline.frontier.admin_verbs.dead_letters import CANCELLED_CALL
from silkline.frontier.verbs.claim import StartReport
from silkline.testing import Clock, MemoryFrontier
from tests.model.watch import Watch, check_shard, look_into

HOSTS = ("a.example", "b.example", "c.example")
PRIORITIES = (-1, 0, 2)
_names = itertools.count()

hosts = st.sampled_from(HOSTS)
seconds = st.sampled_from([0.0, 0.001, 0.5, 1.0, 2.5, 5.0])
some_hosts = st.one_of(st.just({}), hosts.map(lambda host: {"host": host}))
paces = st.fixed_dictionaries(
    {},
    optional={
        "delay": st.sampled_from([None, 0.0, 0.5, 2.0]),
        "concurrency": st.sampled_from([None, 1, 2, 5]),
        "burst": st.sampled_from([None, 1, 3]),
        "paused": st.just(False),
        "crawl_delay": st.sampled_from([None, 0.25, 3.0]),
    },
)


@st.composite
def requests(draw):
    """A few pages of a few hosts, so that they meet again; mostly plain."""
    url = f"https://{draw(hosts)}/{draw(st.integers(0, 7))}"
    if draw(st.booleans()):
        return url
    return Request(
        url,
        priority=draw(st.sampled_from(PRIORITIES)),
        dont_filter=draw(st.integers(0, 3)) == 0,
        depth=draw(st.sampled_from([0, 0, 1, 3])),
        not_before=draw(st.sampled_from([None, None, 0.0, 1.0, 4.0])),
        expires=draw(st.sampled_from([None, None, None, 4.5, 7.0])),
        download_slot=draw(st.sampled_from([None, None, None, "b.example", "c.example"])),
    )


batches = st.lists(requests(), max_size=6)
groups = st.sampled_from(["a.example/=1", "b.example/=2"])
visits = st.sampled_from([None, LastVisit(interval=5, changed=3), LastVisit(interval=60, etag='"a"', failures=1)])
verdicts = st.one_of(
    batches.map(Complete),
    st.builds(
        Complete, batches, result=st.sampled_from([None, 7, {"sku": "a"}]), keep=st.sampled_from([1.0, 3.0, 100.0])
    ),
    st.builds(Complete, batches, next_visit=st.builds(NextVisit, seconds, visits)),
    st.builds(RetryIn, seconds, st.sampled_from(["", "slow"]), st.sampled_from([None, 503]), st.booleans()),
    st.builds(RetryIn, seconds, slow_host=st.just(True)),
    st.builds(Bury, st.sampled_from(["gone", "Timeout"]), st.sampled_from([None, 404])),
    st.builds(Release, seconds),
    st.just(Strike("it blocked")),
    st.just(Suspect()),
)
politenesses = st.builds(
    Politeness,
    delay=st.sampled_from([0.0, 0.0, 1.0, 2.5]),
    concurrency=st.sampled_from([1, 2, 4, 10]),
    burst=st.sampled_from([1, 1, 2]),
)
budgets = st.builds(
    Budget,
    pages=st.sampled_from([None, None, None, 7]),
    pages_per_host=st.sampled_from([None, None, 3]),
    depth=st.sampled_from([None, 2]),
)


def but_offers(stats):
    """A link that several pages of one call have is offered once by the frontier, and once a page by the model."""
    return msgspec.structs.replace(stats, duplicates=0, turned_away=0)


def but_lost_links(outcome, endings):
    """Such a link is seen for the frontier though one of its pages is lost; for the model that page has none."""
    links, kept = iter(outcome.links), []
    for lease, verdict in endings.items():
        answers = [next(links) for _ in verdict.links] if isinstance(verdict, Complete) else []
        kept += [] if lease in outcome.lost else answers
    return outcome.lost, outcome.postponed, kept


def now(coroutine):
    """The answer of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waited")


class Comparison(RuleBasedStateMachine):
    def __init__(self, server):
        super().__init__()
        self.server = server
        self.client = server.client()
        self.clock = Clock()
        self.leases = []
        self.claims = {}
        self.real = None

    @initialize(
        politeness=politenesses,
        budget=budgets,
        order=st.sampled_from(["fifo", "lifo"]),
        capacity=st.sampled_from([5, 12, 1000]),
        dead_limit=st.sampled_from([None, 0, 1, 3]),
        seen=st.sampled_from(["exact", "exact", "compact"]),
    )
    def open(self, **arguments):
        crawl = f"model-{os.getpid()}-{next(_names)}"
        self.real = SyncFrontier.open(self.server.url, crawl=crawl, clock=self.clock, lease=5, **arguments)
        self.model = now(MemoryFrontier.open(crawl=crawl, clock=self.clock, lease=5, **arguments))
        self.watch = Watch(arguments["politeness"], arguments["budget"], forgets=True)
        self.flood(0, 1)

    def both(self, verb, *arguments, **options):
        """Do it on both; they must answer, or object, alike."""
        answers = []
        for frontier in (self.real, self.model):
            try:
                faces = (frontier, frontier.admin, frontier.internal)
                face = next(face for face in faces if hasattr(face, verb))
                answer = getattr(face, verb)(*arguments, **options)
                answer = now(answer) if frontier is self.model else answer
                answers.append(but_offers(answer) if verb == "stats" else answer)
            except SilklineError as error:
                answers.append(type(error))
        assert answers[0] == answers[1], f"{verb}: {answers[0]} but the model {answers[1]}"
        return answers[0]

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(passed=seconds)
    def time_passes(self, passed):
        self.clock.advance(passed)

    @rule(by=st.sampled_from([2, 70]))
    def the_clock_is_set_back(self, by):
        """After a claim, whose token tells what time it was."""
        if self.take(1):
            self.clock.advance(-by)

    @property
    def moment(self):
        """What time it is for the crawl, whose clock does not go back."""
        return self.model._session.at_now().now

    @rule()
    def a_long_time_passes(self):
        self.clock.advance(5)

    @rule()
    def minutes_pass(self):
        """So that what was slowed decays."""
        self.clock.advance(100)

    # ── in and out ───────────────────────────────────────────────────────────────────────────────────────────────────
    def timely(self, offered):
        """Times are drawn relative to now."""
        return [request if isinstance(request, str) else self._timely(request) for request in offered]

    def _timely(self, request):
        times = {"not_before": request.not_before, "expires": request.expires}
        from_now = {name: self.clock.seconds + time for name, time in times.items() if time is not None}
        return replace(request, **from_now)

    @rule(offered=batches)
    def enqueue(self, offered):
        self.both("enqueue", self.timely(offered))

    @rule(host=hosts, schedule=st.sampled_from(["one", "two"]), after=st.sampled_from([None, 1, 3, 5]))
    def tick(self, host, schedule, after):
        at = None if after is None else int(self.clock.seconds) + after
        self.both("tick", Request(f"https://{host}/tick", not_before=at), schedule)

    @rule(
        group=groups, allow_failure=st.booleans(), until=st.sampled_from([3, 100]), priority=st.sampled_from(PRIORITIES)
    )
    def open_group(self, group, allow_failure, until, priority):
        request = Request(f"https://{group}", priority=priority, dont_filter=group.endswith("1"), handler="report")
        self.both("open_group", request, self.clock.seconds + until, allow_failure=allow_failure)

    @rule(
        group=groups,
        batch=st.sampled_from(["batchbat1", "batchbat2", "batchbat3"]),
        calls=st.integers(1, 3),
        apart=st.booleans(),
        following=st.sampled_from(["", "", "close", "drop"]),
        until=st.sampled_from([3, 100, 100]),
    )
    def join_group(self, group, batch, calls, apart, following, until):
        """Watch some calls, enqueue them, and add them to the group. Their requests may be there already, or in two batches."""
        host = HOSTS[calls % 2]
        requests = [Request(f"https://{host}/{batch}{n:03}", dont_filter=True, handler="step") for n in range(calls)]
        names = [(f"{host}/{batch}{n:03}", n) for n in range(calls)] if apart else [(f"{host}/{batch}*", calls)]
        self.both("watch", group, batch, names, self.clock.seconds + until)
        admissions = self.both("enqueue", requests)
        letters = "".join("." if answer == "added" else "x" for answer in admissions)
        self.both("join_group", group, batch, letters, following)

    @rule(group=groups, letters=st.sampled_from(["", "d", "f", "dx"]))
    def close_group(self, group, letters):
        self.both("join_group", group, "late", letters, "close")

    @rule()
    def report_ended(self):
        self.both("report_ended")
        self.both("groups")

    @rule(request=requests())
    def result(self, request):
        self.both("result", request)

    @rule(
        wanted=st.integers(1, 8),
        lease=st.sampled_from([None, 2, 20]),
        slack=st.sampled_from([0, 0, 0.05, 3]),
        suspects=st.sampled_from(["any", "alone", "beside", "beside", "none"]),
        reserve=st.one_of(st.none(), st.dictionaries(st.sampled_from(HOSTS), st.integers(1, 4))),
    )
    def claim(self, wanted, lease, slack, suspects, reserve):
        self.take(wanted, lease, slack, suspects, reserve)

    def take(self, wanted, lease=None, slack=0, suspects="any", reserve=None):
        claimed = self.real.claim(wanted, lease=lease, slack=slack, suspects=suspects, reserve=reserve)
        expected = now(self.model.claim(wanted, lease=lease, slack=slack, suspects=suspects, reserve=reserve))
        assert [_all_of(one) for one in claimed] == [_all_of(one) for one in expected]
        assert claimed.isolate == expected.isolate
        assert sum(one.suspect for one in claimed) <= 1
        assert len(claimed) <= 1 or not any(one.crashes for one in claimed)
        for one in claimed:
            self.watch.started(one, self.moment)
            self.claims[one] = self.moment / 1000, slack
        self.leases = self.leases[-12:] + claimed
        return claimed

    @rule(wanted=st.integers(1, 8), times=st.integers(1, 3))
    def workers_crash(self, wanted, times):
        for _ in range(times):
            self.take(wanted)
            self.clock.advance(5)

    @rule(data=st.data(), times=st.integers(1, 4))
    def workers_lose_their_connections(self, data, times):
        """A suspect is tried several times. Its workers return late, some after others have it, and one may be reported lost."""
        away = []
        for _ in range(times):
            away += [lease for lease in self.take(1) if lease.suspect]
            self.clock.advance(data.draw(st.sampled_from([5, 5, 5, 1])))
            if away and data.draw(st.booleans()):
                back = data.draw(st.sampled_from(away))
                if data.draw(st.booleans()):
                    self.keep([back])
                else:
                    self.settle_all([(back, self.timely_verdict(data.draw(verdicts)))])
        if away:
            self.keep(data.draw(st.lists(st.sampled_from(away), min_size=1)))

    @rule(first=st.integers(0, 5), wanted=st.integers(1, 4))
    def flood(self, first, wanted):
        """Fill the crawl up, make a little room, and try again."""
        pages = [f"https://{HOSTS[number % 3]}/{100 * first + number}" for number in range(14)]
        self.both("enqueue", pages)
        self.take(wanted)
        self.both("enqueue", pages)

    def pick(self, data, most):
        return data.draw(st.lists(st.sampled_from(self.leases), min_size=1, max_size=most))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def settle(self, data):
        """Many at once, among them some that ended long ago, and some twice."""
        self.settle_all([(lease, self.timely_verdict(data.draw(verdicts))) for lease in self.pick(data, 4)])

    @rule(data=st.data(), wanted=st.integers(1, 6))
    def work(self, data, wanted):
        """What a worker does all day; mostly with success."""
        self.clock.advance(data.draw(seconds))
        mostly = st.one_of(batches.map(Complete), batches.map(Complete), verdicts)
        self.settle_all([(lease, self.timely_verdict(data.draw(mostly))) for lease in self.take(wanted)])

    @rule(wanted=st.integers(1, 4), verdict=st.sampled_from([Release(), RetryIn(0.0, "slow"), Bury("gone")]))
    def give_back_and_take_again(self, wanted, verdict):
        self.clock.advance(3)
        self.settle_all([(lease, verdict) for lease in self.take(wanted)])
        self.clock.advance(3)
        self.both("revive")
        self.take(wanted)

    def settle_all(self, pairs):
        note(f"settle {[(lease.url, lease.token, verdict) for lease, verdict in pairs]}")
        firsts = {}
        for lease, verdict in pairs:
            firsts.setdefault(lease, verdict)
        outcome, expected = self.real.settle(pairs), now(self.model.settle(pairs))
        assert but_lost_links(outcome, firsts) == but_lost_links(expected, firsts)
        assert outcome.dropped_letters == expected.dropped_letters
        for lease, verdict in firsts.items():
            if outcome.lost.count(lease) == sum(one == lease for one, _ in pairs):
                continue  # not even the first verdict on it held
            completed = isinstance(verdict, Complete) and lease not in outcome.postponed
            self.watch.ended(lease, completed=completed)
            if isinstance(verdict, RetryIn) and verdict.block_host:
                self.watch.block(lease.host, self.moment / 1000 + verdict.after)
            if isinstance(verdict, RetryIn) and verdict.slow_host:
                self.watch.slow(lease, self.moment)
        return outcome

    def timely_verdict(self, verdict):
        return replace(verdict, links=self.timely(verdict.links)) if isinstance(verdict, Complete) else verdict

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), verb=st.sampled_from(["complete", "retry", "release"]))
    def end_one(self, data, verb):
        [lease] = self.pick(data, 1)
        note(f"{verb} {lease.url} {lease.token}")
        outcome = self.both(verb, lease)
        if not isinstance(outcome, type):
            self.watch.ended(lease, completed=verb == "complete")

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), lease=st.sampled_from([None, 1, 30]))
    def extend(self, data, lease):
        self.keep(self.pick(data, 6), lease)

    def keep(self, chosen, lease=None):
        lost = self.both("extend", chosen, lease=lease)
        for one in set(chosen) - set(lost):
            self.watch.extended(one, self.moment + round((lease or 5) * 1000))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def vacate(self, data):
        chosen = self.pick(data, 6)
        lost = self.both("vacate", chosen)
        for one in set(chosen) - set(lost):
            self.watch.vacated(one)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def hand_over(self, data):
        """Downloaded pages hand over their places, some to leases that ended long ago, or that have a place."""
        givers, takers = self.pick(data, 4), self.pick(data, 4)
        pairs = list(zip(givers, takers, strict=False))
        self.both("hand_over", pairs)
        for old, new in pairs:
            self.watch.handed_over(old, new, self.moment)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), used=st.sampled_from([0, 0, 0.02, 3]), moved=st.sampled_from([0, 0, 0, 0.001]))
    def report_starts(self, data, used, moved):
        chosen = self.pick(data, 3)
        claims = [(one, *self.claims[one]) for one in chosen]
        self.both("started", [StartReport(one, claimed + moved, slack, used) for one, claimed, slack in claims])

    # ── the dead ─────────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(
        verb=st.sampled_from(["revive", "revive", "purge", "dead"]),
        which=st.one_of(
            some_hosts,
            st.sampled_from(
                [{"reason": "time"}, {"reason": "crash"}, {"status": 404}, {"older_than": 2.0}, {"newer_than": 1}]
            ),
        ),
    )
    def treat_the_dead(self, verb, which):
        self.both(verb, **which)
        self.both("dead_groups", "reason")
        self.both("dead_groups", "host")

    # ── control ──────────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(host=hosts, reason=st.sampled_from(["not JSON", "too long"]))
    def add_dead(self, host, reason):
        self.both("add_dead", [(Request(f"https://{host}/bad"), reason)])

    @rule(forgotten=st.lists(requests(), max_size=3))
    def forget(self, forgotten):
        self.both("forget", forgotten)

    @rule(marked=st.lists(st.sampled_from([b"one", b"two"]), max_size=2))
    def mark_seen(self, marked):
        self.both("mark_seen", marked)

    @rule(host=hosts, identity=st.sampled_from([b"one", b"two"]))
    def enqueue_by_identity(self, host, identity):
        self.both("enqueue", [Request(f"https://{host}/identity", identity=identity)])

    @rule(host=hosts, pace=paces, block=st.sampled_from([None, None, 3.0, 0.0]))
    def set_host(self, host, pace, block):
        if block is not None:
            pace = {**pace, "block_until": self.clock.seconds + block if block else None}
        self.both("set_host", host, **pace)
        self.watch.set_host(host, pace)

    @rule(host=st.sampled_from([None, *HOSTS]), verb=st.sampled_from(["resume", "resume", "pause"]))
    def pause_or_resume(self, host, verb):
        if self.both(verb, host) is None:
            if host:
                self.watch.set_host(host, {"paused": verb == "pause"})
            else:
                self.watch.paused = verb == "pause"

    @rule(politeness=politenesses)
    def the_pace_changes(self, politeness):
        self.both("set_politeness", politeness)
        self.watch.set_politeness(politeness)

    @rule(budget=budgets)
    def the_budget_changes(self, budget):
        if self.both("set_budget", budget) is None:
            self.watch.set_budget(budget)

    @rule(capacity=st.sampled_from([5, 12, 1000]))
    def the_capacity_changes(self, capacity):
        self.both("set_capacity", capacity)

    @rule(limit=st.sampled_from([0, 1, 2, 5]))
    def the_dead_limit_changes(self, limit):
        self.both("set_dead_limit", limit)

    @rule(host=hosts)
    def cancel_a_host(self, host):
        self.both("cancel", host)

    @rule(sure=st.integers(0, 9))
    def cancel(self, sure):
        if sure == 9:
            self.both("cancel")

    # ── robots.txt ───────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(host=hosts, lock=st.sampled_from([1.0, 3.0]))
    def ask_for_robots(self, host, lock):
        self.both("robots", f"https://{host}/", lock=lock)

    @rule(
        host=hosts,
        text=st.sampled_from([None, b"", b"User-agent: *"]),
        fresh=st.sampled_from([1.0, 50.0]),
        crawl_delay=st.sampled_from([None, None, 3.0]),
    )
    def keep_robots(self, host, text, fresh, crawl_delay):
        self.both("keep_robots", f"https://{host}/", text, fresh=fresh, crawl_delay=crawl_delay)
        self.watch.set_host(host, {"crawl_delay": crawl_delay})

    # ── chosen requests ──────────────────────────────────────────────────────────────────────────────────────────────
    @rule(
        data=st.data(),
        host=hosts,
        state=st.sampled_from(["ready", "delayed"]),
        verb=st.sampled_from(["drop", "promote"]),
    )
    def act_on_some(self, data, host, state, verb):
        """On some that both list, at the same places of both lists."""
        lists = [
            self.real.admin.requests(state, host=host).requests,
            now(self.model.admin.requests(state, host=host)).requests,
        ]
        seen = [
            [one._replace(id="", crashes=0) for one in some] for some in lists
        ]  # strikes are withdrawn when it is due
        assert seen[0] == seen[1]
        if lists[0]:
            chosen = data.draw(st.lists(st.integers(0, len(lists[0]) - 1), max_size=3, unique=True))
            verb = verb if state == "delayed" else "drop"
            ids = [[some[place].id for place in chosen] for some in lists]
            acted = getattr(self.real.admin, verb)(ids[0]), now(getattr(self.model.admin, verb)(ids[1]))
            assert acted == (len(chosen), len(chosen))

    @rule(host=hosts, state=st.sampled_from(["ready", "delayed"]))
    def cancel_a_call(self, host, state):
        """The first one that both list."""
        faces = self.real.admin.requests(state, host=host), now(self.model.admin.requests(state, host=host))
        ids = [[one.id for one in page.requests[:1]] for page in faces]
        cancelled = self.real.internal.cancel_calls(ids[0]), now(self.model.internal.cancel_calls(ids[1]))
        assert cancelled == (len(ids[0]), len(ids[0]))

    @rule(result=st.booleans(), first=st.booleans(), at_once=st.booleans())
    def cancel_while_it_completes(self, result, first, at_once):
        """The worker completes the call, and its caller ends the lease: one of them wins."""
        for lease in self.take(1):
            done = self.both("stats").done
            verdicts = [Complete(result=7) if result else Complete(), Bury(CANCELLED_CALL)][:: 1 if first else -1]
            pairs = [(lease, verdict) for verdict in verdicts]
            outcomes = [self.settle_all(some) for some in ([pairs] if at_once else [[pair] for pair in pairs])]
            assert [lost for outcome in outcomes for lost in outcome.lost] == [lease]
            assert self.both("stats").done == done + first

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), done=st.sampled_from([0.0, 0.5, 1.0]))
    def report_progress(self, data, done):
        [lease] = self.pick(data, 1)
        self.both("report_progress", lease, done, "resizing")
        self.both("progress", lease.url)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(request=requests())
    def explain(self, request):
        real, model = self.real.admin.explain(request), now(self.model.admin.explain(request))
        landed = model.lease in self.watch.landed  # for which the frontier looks only if it was seen
        assert real.state == model.state or (landed and real.state is None)
        assert real.host == model.host

    @invariant()
    def both_stand_alike(self):
        if self.real is None:
            return
        stats = self.both("stats")
        assert stats.conserved
        self.both("finished")
        listed = self.both("hosts")
        states = self.both("hosts", *HOSTS)
        assert {state.host for state in listed} <= set(HOSTS)
        [keys] = self.real.layout.shards
        shard = look_into(self.client, keys.root, HOSTS, PRIORITIES)
        check_shard(shard, {state.host: state for state in states})
        listed = [pair.split(b".")[0] for pair in shard["ledger"].get("struck", b"").split()]
        assert [int(number) for number in listed if number.isdigit()] == list(self.model._session.at_now().struck)

    def teardown(self):
        if self.real is None:
            return
        try:
            self.drain()
        finally:
            self.real.admin.remove()
            self.real.close()
            self.client.close()

    def drain(self):
        """Nothing is stuck: once all hosts are let go, the crawl comes to its end."""
        self.both("resume")
        self.watch.paused = False
        for host in HOSTS:
            pace = {"delay": 0.0, "concurrency": 10, "burst": None, "block_until": None, "paused": False}
            self.both("set_host", host, **pace)
            self.watch.set_host(host, pace)
        for _ in range(60):
            if self.both("finished"):
                return
            self.clock.advance(60)
            self.both("report_ended")
            self.take(100)
            pairs = [(lease, Complete()) for lease in self.leases]
            lost = set(self.both("settle", pairs).lost)
            for lease in set(self.leases) - lost:
                self.watch.ended(lease, completed=True)
        raise AssertionError("it does not come to its end")


def _all_of(lease):
    """Every field but the nonce, which is of no use in memory; leases compare by their token alone."""
    return (lease.token, *(getattr(lease, name) for name in lease.__struct_fields__ if name != "wire_token"))


@pytest.mark.timeout(600)  # a failure is first made as small as can be
def test_the_frontier_does_what_its_model_does(valkey):
    run_state_machine_as_test(
        lambda: Comparison(valkey),
        settings=settings(
            max_examples=int(os.environ.get("MODEL_EXAMPLES", "100")),
            stateful_step_count=50,
            derandomize="MODEL_EXAMPLES" not in os.environ,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
        ),
    )
