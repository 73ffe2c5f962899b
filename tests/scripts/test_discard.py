from __future__ import annotations

from silkline import Politeness
from silkline.frontier.verbs.enqueue import enqueue_command


def fill(shard, hosts, options=""):
    offers = [shard.offer(f"https://{host}/{options or 'x'}", options) for host in hosts]
    for start in range(0, len(offers), 1000):
        shard.send(enqueue_command(shard.keys, offers[start : start + 1000]))


def discard_all(shard):
    """How many requests each call dropped."""
    dropped, position = [], "0"
    while position:
        some, position = shard.run("discard", "", position)
        dropped.append(some)
    return dropped


def test_a_call_drops_a_bounded_number_of_hosts_and_delayed_requests(shard, clock):
    fill(shard, [f"h{number}.example" for number in range(500)])
    fill(shard, [f"h{number}.example" for number in range(500)], f"0 {clock.now + 9000} - -")
    shard.run("set_state", "cancelled")
    steps = [shard.run("discard", "", 0) for _ in range(3)]
    assert steps == [[400, b"0"], [400, b"0"], [200, b"hosts 0"]]
    assert shard.get("discarded") == 1000
    assert discard_all(shard) == [0, 0, 0]


def test_of_one_host_the_delayed_requests_of_others_are_passed_over(shard, clock):
    due = f"0 {clock.now + 9000} - -"
    fill(shard, [f"h{number % 250}.example" if number % 2 else "a.example" for number in range(500)], due)
    skip, dropped = b"0", 0
    while skip:
        some, skip = shard.run("discard", "a.example", skip)
        dropped += some
    assert dropped == 1
    assert shard.get("discarded") == 1


def test_hosts_in_no_line_are_dropped_however_many_there_are(make_shard):
    shard = make_shard(politeness=Politeness(delay=0, concurrency=1))
    hosts = [f"h{number}.example" for number in range(200)]
    for number in range(2):
        shard.send(enqueue_command(shard.keys, [shard.offer(f"https://{host}/{number}") for host in hosts]))
    shard.run("claim", 200, 5000, 0)
    paused = [f"p{number}.example" for number in range(200)]
    for host in paused:
        shard.run("set_host", host, "", "", "", "", 1, "")
    fill(shard, paused)
    shard.run("set_state", "cancelled")
    assert sum(discard_all(shard)) == 400
    assert shard.get("queued") == 0


def test_a_call_reads_a_bounded_number_of_hosts_in_no_line(shard):
    hosts = [f"h{number}.example" for number in range(2000)]
    for host in hosts:
        shard.run("set_host", host, "", "", "", "", 1, "")
    fill(shard, hosts)
    shard.run("set_state", "cancelled")
    dropped = discard_all(shard)
    assert sum(dropped) == 2000
    assert max(dropped) < 500


def test_a_cancelled_host_keeps_its_next_slot(make_shard, client, clock):
    shard = make_shard(politeness=Politeness(delay=5))
    fill(shard, ["a.example"])
    [token] = shard.run("claim", 1, 5000, 0)[3::2]
    shard.run("settle", 1, token)
    shard.run("discard", "a.example", 0)
    assert client.zscore(f"{shard.root}:idle", "a.example") == clock.now + 5000
