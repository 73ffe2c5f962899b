"""How many workers are wanted: the arithmetic, and what comes of following it."""

from __future__ import annotations

import random

import pytest

from silkline.errors import ConfigError
from silkline.ops.autoscale import AIM, DepthSample, ScaleDownDelay, ScalingTarget, Situation, required_rate, wanted
from tests.operate.simulation import Host, Simulation, least_time

HOUR = ScalingTarget(drain=3600, most=1000)


def situation(depth=0, *, useful=None, in_flight=0, **fields):
    now = fields.pop("now", DepthSample(10_000, depth, 0))
    return Situation(
        now=now, useful=depth if useful is None else useful, in_flight=in_flight, **{"places": 50, **fields}
    )


def test_ten_million_requests_for_one_polite_host_are_work_for_one_worker():
    advice = wanted(situation(10_000_000, useful=1, in_flight=1, seconds_per_page=0.5), HOUR)
    assert advice.workers == 1
    assert advice.by_depth > 20
    assert "rate limits of the hosts" in advice.reason


def test_many_hosts_get_as_many_workers_as_the_target_time_needs():
    advice = wanted(situation(3_600_000, useful=100_000, seconds_per_page=1.0), HOUR)
    assert advice.pages_per_second == 50
    assert advice.workers == advice.by_depth == -(-3_600_000 // int(3600 * AIM * 50))
    assert advice.reason == "enough to finish the queue within 3600 s"


def test_nobody_is_wanted_for_nothing_and_one_for_little():
    assert wanted(situation(0), HOUR).workers == 0
    assert wanted(situation(1, useful=0), HOUR).workers == 1
    assert wanted(situation(0), ScalingTarget(least=2)).workers == 2
    assert "minimum is 2" in wanted(situation(0), ScalingTarget(least=2)).reason


def test_what_is_in_progress_keeps_its_workers():
    advice = wanted(situation(220, useful=200, in_flight=200, seconds_per_page=0.1), HOUR)
    assert (advice.by_depth, advice.workers) == (1, 4)
    assert "in progress" in advice.reason


def test_no_more_than_are_allowed():
    advice = wanted(situation(10**8, useful=10**6), ScalingTarget(drain=60, most=7))
    assert advice.workers == 7
    assert "maximum is 7" in advice.reason


def test_while_work_is_done_as_it_should_be_the_rate_stays_the_same():
    """Else fewer and fewer would be wanted, and the end would never come."""
    start, rates = DepthSample(0, 36_000, 0), []
    for time in range(0, 3000, 300):
        done = round(36_000 * time / (3600 * AIM))
        rates.append(required_rate(situation(now=DepthSample(time, 36_000 - done, done), past=[start]), 3600))
    assert max(rates) == pytest.approx(min(rates), rel=0.01)


def test_who_is_behind_must_hurry_and_what_came_later_has_its_own_time():
    behind = situation(now=DepthSample(1800, 36_000, 0), past=[DepthSample(0, 36_000, 0)])
    assert required_rate(behind, 3600) == pytest.approx(36_000 / (3600 * AIM - 1800))
    later = situation(
        now=DepthSample(1800, 40_000, 36_000), past=[DepthSample(0, 36_000, 0), DepthSample(1800, 40_000, 36_000)]
    )
    assert required_rate(later, 3600) == pytest.approx(40_000 / (3600 * AIM))


def test_letters_that_were_revived_have_their_own_time_too():
    revived = situation(now=DepthSample(3000, 1100, 0), past=[DepthSample(0, 100, 1000)])
    assert required_rate(revived, 3600) == pytest.approx(100 / (3600 * AIM - 3000))


@pytest.mark.parametrize("wrong", [{"drain": 1}, {"drain": 10**6}, {"least": -1}, {"least": 5, "most": 4}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(ConfigError):
        ScalingTarget(**wrong)


def test_calm_goes_up_at_once_and_down_after_a_while():
    calm = ScaleDownDelay(60)
    assert [calm.follow(at, n) for at, n in ((0, 2), (10, 5), (20, 1), (65, 1), (71, 1), (80, 3))] == [2, 5, 5, 5, 1, 3]


# ── what comes of it ─────────────────────────────────────────────────────────────────────────────────────────────────
def check(simulation, arrived, hosts, target):
    """All done in 1.2 times the target, or in what the hosts themselves allow; and each page once.

    At every look the simulation asserts that there is a place for all that is under way.
    """
    done = simulation.run()
    allowed = max(target.drain, least_time(hosts))
    assert done - arrived <= 1.2 * allowed, f"{done - arrived:.0f} s of {allowed:.0f}, {simulation.sizes}"
    assert simulation.ended == sum(host.backlog for host in hosts)


@pytest.mark.parametrize("seed", range(4))
def test_a_burst_on_many_hosts_is_drained_in_time(seed):
    rng = random.Random(seed)
    target = ScalingTarget(drain=600, most=200)
    hosts = [Host(rng.randint(20, 200), rng.uniform(0.2, 1.5)) for _ in range(120)]
    simulation = Simulation(hosts, target, seed=seed, places=2)
    check(simulation, 0, [Host(h.backlog, h.latency) for h in hosts], target)
    needed = sum(host.latency * 110 for host in hosts) / 600 / 2
    assert simulation.most <= 4 * needed + 4, "and not by brute force"


@pytest.mark.parametrize("seed", range(4))
def test_burst_upon_burst_is_drained_in_time_after_the_last(seed):
    rng = random.Random(seed)
    target = ScalingTarget(drain=600, most=200)

    def some():
        return [Host(rng.randint(10, 120), rng.uniform(0.2, 1.0)) for _ in range(80)]

    first, *later = some(), some(), some()
    simulation = Simulation(first, target, seed=seed)
    simulation.bursts = [(200.0, later[0]), (500.0, later[1])]
    every = [Host(host.backlog, host.latency) for host in (*first, *later[0], *later[1])]
    check(simulation, 500.0, every, target)


@pytest.mark.parametrize("seed", range(4))
def test_slow_hosts_are_found_out_and_drained_in_time(seed):
    """The first guess is a second a page; these take eight."""
    rng = random.Random(seed)
    target = ScalingTarget(drain=900, most=300)
    hosts = [Host(rng.randint(20, 60), rng.uniform(6, 10)) for _ in range(60)]
    check(Simulation(hosts, target, seed=seed), 0, [Host(h.backlog, h.latency) for h in hosts], target)


@pytest.mark.parametrize("seed", range(4))
def test_a_fleet_that_is_far_slower_than_was_guessed_is_given_what_it_needs_in_time(seed):
    """Half a minute a page instead of a second: hurrying at the end would come too late, so the speed must be measured."""
    rng = random.Random(seed)
    target = ScalingTarget(drain=900, most=300)
    hosts = [Host(rng.randint(60, 100), rng.uniform(25, 35)) for _ in range(60)]
    simulation = Simulation(hosts, target, seed=seed)
    check(simulation, 0, [Host(h.backlog, h.latency) for h in hosts], target)
    needed = sum(80 * host.latency for host in hosts) / 900 / simulation.places
    assert simulation.most <= 4 * needed, "and not by brute force"


@pytest.mark.parametrize("seed", range(4))
def test_polite_hosts_get_few_workers_and_lose_no_time_by_it(seed):
    rng = random.Random(seed)
    target = ScalingTarget(drain=300, most=100)
    hosts = [Host(rng.randint(100, 300), rng.uniform(0.1, 0.4), delay=2.0, cap=1) for _ in range(12)]
    simulation = Simulation(hosts, target, seed=seed)
    check(simulation, 0, [Host(h.backlog, h.latency, h.delay, h.cap) for h in hosts], target)
    assert simulation.most <= 2


@pytest.mark.parametrize("seed", range(2))
def test_polite_slow_and_quick_ones_together(seed):
    rng = random.Random(seed)
    target = ScalingTarget(drain=600, most=200)
    hosts = [Host(rng.randint(50, 200), rng.uniform(0.2, 0.6)) for _ in range(60)]
    hosts += [Host(rng.randint(50, 150), 0.3, delay=3.0, cap=1) for _ in range(10)]
    hosts += [Host(rng.randint(20, 60), 6.0) for _ in range(10)]
    check(Simulation(hosts, target, seed=seed), 0, [Host(h.backlog, h.latency, h.delay, h.cap) for h in hosts], target)
