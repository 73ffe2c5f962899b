"""What the property tests check besides the model: the promises themselves, and the shard as it lies in Redis."""

from __future__ import annotations

import math
from collections import defaultdict

from silkline.frontier.verbs.claim import VACATED

RANK = 2**42


class Watch:
    """Notes every start and every ending by itself, and objects when a promise is broken. Times are in milliseconds."""

    def __init__(self, politeness, budget, *, forgets):
        self.politeness = politeness
        self.budget = budget
        self.used = 0
        """Pages that were done or leased when the budget was changed."""
        self.counted = budget.pages_per_host is not None
        self.forgets = forgets
        self.own = defaultdict(dict)
        self.under_way = {}  # lease -> its expiry
        self.tokens = defaultdict(int)
        self.starts = defaultdict(list)  # since the pace changed last
        self.start_of = {}
        self.landed = set()  # leases that hold no place of their host any more
        self.done = defaultdict(int)
        self.paused = False

    def pace(self, host):
        own, crawl = self.own[host], self.politeness
        delay = own.get("delay", max(crawl.delay, own.get("crawl_delay", 0)))
        return (
            round(delay * 1000),
            own.get("concurrency", crawl.concurrency),
            own.get("burst", crawl.burst),
        )

    def set_host(self, host, pace):
        for name, value in pace.items():
            if value is None or value is False:
                self.own[host].pop(name, None)
            else:
                self.own[host][name] = value
        if "delay" in pace:  # which ends a slow-down
            self.own[host].pop("complained", None)
            self.own[host].pop("slow_until", None)
        if {"delay", "burst", "crawl_delay"} & set(pace):
            del self.starts[host][:-1]  # the slot of the last start was given at the old pace
            self.own[host]["pace_changed"] = True

    def set_politeness(self, politeness):
        self.politeness = politeness
        for host, starts in self.starts.items():
            del starts[:-1]
            self.own[host]["pace_changed"] = True

    def set_budget(self, budget):
        """What is leased beyond a lower budget may complete, and what of it is within the share of its shard may start again."""
        self.used = sum(self.done.values()) + len(self.under_way)
        self.budget = budget
        self.counted = self.counted or budget.pages_per_host is not None

    def block(self, host, until):
        self.own[host]["block_until"] = max(until, self.own[host].get("block_until", 0))

    def slow(self, lease, now):
        """Until twice the delay has passed nothing starts; a request that started before the last complaint does not count."""
        own, (delay, _, _) = self.own[lease.host], self.pace(lease.host)
        if self.start_of[lease] > own.get("complained", 0):
            own["complained"] = now
            own["slow_until"] = now + max(250, 2 * delay)
            del self.starts[lease.host][:-1]

    def slow_until(self, host):
        """A slow-down does not matter while the usual delay is as long; a burst may start then."""
        own, (delay, _, _) = self.own[host], self.pace(host)
        until, complained = own.get("slow_until", 0), own.get("complained", 0)
        return until if until - complained > delay else 0

    def started(self, lease, now):
        host = lease.host
        self.start_of[lease] = now
        assert lease.token > self.tokens[lease.shard], "tokens only grow"
        self.tokens[lease.shard] = lease.token
        assert not self.paused
        assert not self.own[host].get("paused")
        assert now / 1000 >= self.own[host].get("block_until", 0)
        assert now >= self.slow_until(host), f"{host} complained and was not slowed"
        self.under_way[lease] = round(lease.expires * 1000)
        delay, concurrency, burst = self.pace(host)
        if lease.reserve:
            self.landed.add(lease)
            assert delay == 0, f"{host} has a delay, which a lease in reserve does not keep"
        else:
            self.starts[host].append(now)
            assert self.in_flight(host, now) <= concurrency, f"{host} is over its cap"
        same = [other for other, expiry in self.under_way.items() if other.url == lease.url and expiry > now]
        assert lease.request.dont_filter or self.forgets or len(same) == 1, "nobody else works on it"
        self._check_starts(host, delay, burst)
        self._check_budget(host, now)

    def _check_starts(self, host, delay, burst):
        if self.own[host].pop("pace_changed", False):
            del self.starts[host][:-1]
        starts = self.starts[host]
        for more in range(burst, len(starts)):  # so many starts after another one, so many delays must lie between
            assert starts[-1] - starts[-1 - more] >= (more - burst + 1) * delay, f"{host} was not given its rest"

    def _check_budget(self, host, now):
        flying = [lease.host for lease, expiry in self.under_way.items() if expiry > now]
        if self.budget.pages is not None:
            assert sum(self.done.values()) + len(flying) <= max(self.budget.pages, self.used)
        if self.budget.pages_per_host is not None:
            assert self.done[host] + flying.count(host) <= self.budget.pages_per_host

    def in_flight(self, host, now):
        """Pages that have not landed, under leases that nobody can have taken back."""
        flying = [lease for lease, expiry in self.under_way.items() if lease.host == host and expiry > now]
        return len(set(flying) - self.landed)

    def vacated(self, lease):
        if not self.counted:
            self.landed.add(lease)

    def handed_over(self, old, new, now):
        """A lease that has expired may have been taken back, and hands over nothing then."""
        may_give = old not in self.landed and self.under_way.get(old, 0) > now
        if may_give and new in self.landed and new in self.under_way and old.host == new.host:
            self.landed.add(old)
            self.landed.discard(new)

    def extended(self, lease, expiry):
        if lease in self.under_way:
            self.under_way[lease] = expiry

    def ended(self, lease, *, completed):
        self.under_way.pop(lease, None)
        if completed:
            self.done[lease.host] += 1


def look_into(client, root, hosts, priorities):
    """Read a whole shard in one go."""
    pipe = client.pipeline(transaction=True)
    pipe.hgetall(f"{root}:ledger")
    for name in ("ready", "waiting", "idle", "leases", "buried", "dead_by_host"):
        pipe.zrange(f"{root}:{name}", 0, -1, withscores=True)
    for name in ("hosts", "lanes", "policies", "leased", "dead"):
        pipe.hgetall(f"{root}:{name}")
    pipe.zcard(f"{root}:delayed")
    for host in hosts:
        for priority in priorities:
            pipe.llen(f"{root}:queue:{priority}:{host}")
    ledger, ready, waiting, idle, leases, buried, listed, standing, lanes, policies, leased, dead, delayed, *lengths = (
        pipe.execute()
    )
    queues = iter(lengths)
    return {
        "ledger": {name.decode(): value for name, value in ledger.items()},
        "ready": {host.decode(): score for host, score in ready},
        "waiting": {host.decode(): score for host, score in waiting},
        "idle": {host.decode(): score for host, score in idle},
        "leases": {token for token, _ in leases if token[:1].isdigit()},  # not the filler, see init_shard.lua
        "buried": {token: int(time) for token, time in buried},
        "listed": [text for text, _ in listed],
        "standing": {host.decode(): [int(word) for word in text.split()] for host, text in standing.items()},
        "lanes": {host.decode(): [int(word) for word in text.split()] for host, text in lanes.items()},
        "policies": {host.decode(): text.decode().split() for host, text in policies.items()},
        "leased": leased,
        "delayed": delayed,
        "dead": {token: letter.split(b"\n")[2] for token, letter in dead.items()},
        "queues": {host: {p: n for p in priorities if (n := next(queues))} for host in hosts},
    }


def check_shard(shard, hosts_now):
    """Everything that must agree inside a shard, whatever happened; *hosts_now* is what the frontier tells of hosts."""
    queues = shard["queues"]
    assert int(shard["ledger"].get("queued", 0)) == sum(sum(lanes.values()) for lanes in queues.values())
    assert shard["leases"] == set(shard["leased"])
    buried = shard["buried"]
    assert set(buried) == set(shard["dead"])
    assert len(buried) <= int(shard["ledger"].get("dead_limit", len(buried))), "more letters than the limit"
    listed = [b"%b\n%014d %b" % (host, buried[token], token) for token, host in shard["dead"].items()]
    assert shard["listed"] == sorted(listed), "letters are listed by host, then by time"
    assert not set(shard["ready"]) & set(shard["waiting"])
    held = defaultdict(int)
    for entry in shard["leased"].values():
        if not entry.startswith(VACATED):
            held[entry.partition(b"\n")[0].decode()] += 1
    assert held == {host: leased for host, (leased, _) in shard["standing"].items() if leased}
    for host, lanes in queues.items():
        _check_host(shard, host, lanes, hosts_now[host])


def _check_host(shard, host, lanes, state):
    expected = sorted(lanes, reverse=True)
    assert shard["lanes"].get(host, [0] if lanes else []) == expected, "a lane is stale"
    assert shard["lanes"].get(host) != [0], "lane 0 alone costs nothing"
    somewhere = host in shard["ready"] or host in shard["waiting"]
    if not lanes:
        assert not somewhere, "a host without requests is in no line"
        return
    assert host not in shard["idle"], "a host with requests does not rest"
    hidden = state.paused or state.leased >= state.concurrency
    assert somewhere != hidden, "a host with requests is in a line unless it is at its cap or paused"
    if host in shard["ready"]:
        assert -math.floor(shard["ready"][host] / RANK) == expected[0], "it stands in line for its best priority"
