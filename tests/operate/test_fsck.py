"""fsck finds and repairs every kind of damage, and nothing else; also under load."""

from __future__ import annotations

import random
import threading

import pytest

from silkline import Budget, Bury, Complete, Politeness, Release, Request, RetryIn, SyncFrontier
from silkline.frontier.admin_verbs.fsck import KINDS, recount
from silkline.frontier.transport.command import load

FAST = Politeness(delay=0, concurrency=100)


@pytest.fixture
def client(valkey):
    with valkey.client() as client:
        yield client


@pytest.fixture
def books(open_sync):
    """A crawl with something in every state and every place, and three priorities."""
    frontier = open_sync(politeness=Politeness(delay=2, concurrency=2), lease=1000)
    for host in ("a", "b", "c", "d"):
        frontier.enqueue([Request(f"https://{host}.example/{n}", priority=n % 3 - 1) for n in range(9)])
    frontier.admin.set_host("p.example", paused=True)
    frontier.enqueue([f"https://p.example/{n}" for n in range(3)])
    leases = frontier.claim(4)
    frontier.settle([(leases[0], Complete()), (leases[1], Bury("no", 404)), (leases[2], RetryIn(50))])
    frontier.enqueue("https://r.example/ready")
    assert frontier.admin.fsck().damages == []
    return frontier


def key(frontier, name):
    return f"{frontier.layout.shards[0].root}:{name}"


def lose_host(client, frontier):
    client.zrem(key(frontier, "ready"), "r.example")


def put_empty_host_in_line(client, frontier):
    client.zadd(key(frontier, "ready"), {"nobody.example": 1})


def put_host_in_two_lines(client, frontier):
    client.zadd(key(frontier, "waiting"), {"r.example": 1})


def unlist_queue(client, frontier):
    client.hset(key(frontier, "lanes"), "b.example", "1 0")


def change_dead_limit(client, frontier):
    client.hset(key(frontier, "ledger"), "dead_limit", 7)


def lose_queue(client, frontier):
    client.delete(key(frontier, "queue:1:b.example"))


def change_lease_count(client, frontier):
    [host] = [name for name, text in client.hgetall(key(frontier, "hosts")).items() if text.startswith(b"1 ")]
    client.hset(key(frontier, "hosts"), host, "2 0")


def forget_hosts(client, frontier):
    client.delete(key(frontier, "hosts"))


def lose_expiry(client, frontier):
    [token] = client.hkeys(key(frontier, "leased"))
    client.zrem(key(frontier, "leases"), token)


def lose_lease(client, frontier):
    client.delete(key(frontier, "leased"))


def lose_burial(client, frontier):
    client.delete(key(frontier, "buried"))


def lose_letter(client, frontier):
    client.delete(key(frontier, "dead"))


def change_counter(name, change):
    def damage(client, frontier):
        client.hincrby(key(frontier, "ledger"), name, change)

    damage.__name__ = f"change_{name}_by_{change}"
    return damage


def lose_groups(client, frontier):
    client.delete(key(frontier, "dead_reasons"))


def lose_list(client, frontier):
    client.delete(key(frontier, "dead_by_host"))


def list_a_stranger(client, frontier):
    """Instead of a letter, so that there are as many."""
    [text] = client.zrange(key(frontier, "dead_by_host"), 0, -1)
    client.delete(key(frontier, "dead_by_host"))
    client.zadd(key(frontier, "dead_by_host"), {text + b"7": 0})


def never_count_groups(client, frontier):
    client.delete(key(frontier, "dead_reasons"), key(frontier, "dead_hosts"))
    client.hdel(key(frontier, "ledger"), "counted")


def lose_bucket(client, frontier):
    client.delete(next(client.scan_iter(key(frontier, "seen:*"), count=1000)))


DAMAGES = [
    (lose_host, {"lost"}),
    (put_empty_host_in_line, {"empty"}),
    (put_host_in_two_lines, {"twice"}),
    (unlist_queue, {"unlisted"}),
    (lose_queue, {"hollow", "queued"}),
    (change_lease_count, {"leases"}),
    (forget_hosts, {"leases"}),
    (lose_expiry, {"lease without time"}),
    (lose_lease, {"time without lease", "leases", "balance"}),
    (lose_burial, {"letter without time", "listed without letter", "balance", "groups"}),
    (lose_letter, {"time without letter", "listed without letter"}),
    (lose_list, {"letter not listed"}),
    (list_a_stranger, {"letter not listed", "listed without letter"}),
    (change_counter("queued", 5), {"queued", "balance"}),
    (change_counter("queued", -5), {"queued", "balance"}),
    (change_counter("seen_count", 7), {"seen"}),
    (lose_bucket, {"seen"}),
    (change_counter("done", 2), {"balance"}),
    (change_counter("accepted", 2), {"balance"}),
    (lose_groups, {"groups"}),
    (never_count_groups, {"groups"}),
    (change_dead_limit, {"dead limit"}),
]


@pytest.mark.parametrize(("damage", "kinds"), DAMAGES, ids=lambda value: getattr(value, "__name__", None))
def test_damage_is_found_and_repaired(books, client, damage, kinds):
    damage(client, books)
    found = books.admin.fsck()
    assert {one.kind for one in found.damages} == kinds
    assert not found.sound
    assert {one.kind for one in books.admin.fsck().damages} == kinds, "a look repairs nothing"
    repaired = books.admin.fsck(repair=True)
    assert repaired.sound
    assert kinds & {one.kind for one in repaired.damages}
    assert books.admin.fsck().damages == [], "it is whole again"
    assert books.admin.fsck(repair=True).damages == []
    assert books.admin.stats().conserved


def test_every_kind_of_damage_is_injected():
    elsewhere = {"settings", "ledger"}  # test_lost_keys.py has them
    assert set().union(*(kinds for _, kinds in DAMAGES)) == set(KINDS) - elsewhere


def drain(frontier, clock):
    done = 0
    for _ in range(400):
        clock.advance(2)
        leases = frontier.claim(100)
        frontier.settle([(lease, Complete()) for lease in leases])
        done += len(leases)
    return done


@pytest.mark.parametrize("damage", [lose_host, unlist_queue, lose_expiry, forget_hosts, put_host_in_two_lines])
def test_after_the_repair_everything_is_crawled(books, client, clock, damage):
    books.admin.resume("p.example")
    damage(client, books)
    books.admin.fsck(repair=True)
    clock.advance(1001)
    drain(books, clock)
    stats = books.admin.stats()
    assert (stats.ready, stats.delayed, stats.leased) == (0, 0, 0)
    assert stats.done == stats.accepted - stats.dead
    assert books.admin.fsck().damages == []


def test_groups_are_counted_again_while_letters_come_and_go(open_sync, client, clock):
    frontier = open_sync(politeness=FAST)
    [keys] = frontier.layout.shards

    def bury(count, reason):
        frontier.enqueue([Request(f"https://h{n % 7}.example/{n}", dont_filter=True) for n in range(count)])
        frontier.settle([(lease, Bury(reason)) for lease in frontier.claim(count)])
        clock.advance(1)

    for number in range(6):
        bury(300, f"old {number % 3}")
    never_count_groups(client, frontier)
    assert frontier.admin.dead_groups() == [("", 1800)]
    more = frontier._connection.call(recount(keys, start=True))
    assert more
    bury(10, "new")
    assert frontier.admin.revive(reason="old 0") == 600
    while more:
        more = frontier._connection.call(recount(keys, start=False))
        bury(5, "newer")
    counted = frontier.admin.count_dead()
    assert (frontier.admin.dead_groups(), frontier.admin.dead_groups("host")) == (counted.reasons, counted.hosts)
    assert frontier.admin.fsck().damages == []


def test_the_balance_is_left_alone_while_nobody_knows_what_waits(open_sync, client, monkeypatch):
    """More hosts than one call counts, and something that moves between any two calls."""
    frontier = open_sync(politeness=FAST)
    frontier.enqueue([f"https://h{n}.example/" for n in range(10_001)])
    client.hincrby(key(frontier, "ledger"), "queued", -5)
    call, counting = frontier._connection.call, load("check_queued")

    def call_and_move(command):
        if command.script is counting:
            client.hincrby(key(frontier, "ledger"), "moves", 1)
        return call(command)

    with monkeypatch.context() as patched:
        patched.setattr(frontier._connection, "call", call_and_move)
        found = frontier.admin.fsck(repair=True)
    assert "queued could not be counted" in found.notes[0]
    assert [(damage.kind, damage.count, damage.repaired) for damage in found.damages] == [("balance", 5, False)]
    assert not found.sound
    assert frontier.admin.stats().discarded == 0
    quiet = frontier.admin.fsck(repair=True)
    assert [(damage.kind, damage.count, damage.repaired) for damage in quiet.damages] == [("queued", 5, True)]
    stats = frontier.admin.stats()
    assert (stats.ready, stats.discarded, stats.conserved) == (10_001, 0, True)


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("budget", [Budget(), Budget(pages_per_host=30)])
def test_a_healthy_crawl_under_load_is_found_healthy(valkey, crawl, shards, budget):
    settings = {"politeness": Politeness(delay=0.01, concurrency=2), "shards": shards, "budget": budget}
    stop, errors, moved = threading.Event(), [], []
    with SyncFrontier.open(valkey.url, crawl=crawl, **settings) as frontier:
        frontier.enqueue([f"https://h{n % 60}.example/{n}" for n in range(600)])

    def work(seed):
        rng = random.Random(seed)
        with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
            while not stop.is_set():
                stir(frontier, rng)
                moved.append(1)

    def run(seed):
        try:
            work(seed)
        except Exception as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=[seed]) for seed in range(3)]
    for thread in threads:
        thread.start()
    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        looks = []
        while len(looks) < 12 or (len(moved) < 150 and not errors):
            looks.append(frontier.admin.fsck(repair=len(looks) % 3 == 2))
        stop.set()
        for thread in threads:
            thread.join()
        assert errors == []
        assert [damage for look in looks for damage in look.damages] == []
        assert [note for look in looks for note in look.notes] == []
        final = frontier.admin.fsck()
        stats = frontier.admin.stats()
        assert (final.damages, final.leases, final.letters, final.queued) == ([], stats.leased, stats.dead, stats.ready)
        frontier.admin.remove()


def stir(frontier, rng):
    """Something of everything."""
    leases = frontier.claim(20, lease=rng.choice([0.01, 5]))
    verdicts = [Complete([f"https://h{rng.randrange(90)}.example/{rng.random()}"]), RetryIn(0.01, "x"), Release()]
    verdicts += [Bury(f"r{rng.randrange(5)}"), RetryIn(0.02, "y", block_host=True), RetryIn(0.01, "z", slow_host=True)]
    frontier.settle([(lease, rng.choice(verdicts)) for lease in leases if rng.random() < 0.9])
    host = f"h{rng.randrange(60)}.example"
    urls = [Request(f"https://{host}/{rng.random()}", priority=rng.randrange(-1, 2)) for _ in range(5)]
    frontier.enqueue(urls)
    what = rng.randrange(8)
    if what == 0:
        frontier.admin.pause(host)
    elif what == 1:
        frontier.admin.resume(host)
    elif what == 2:
        frontier.admin.set_host(host, concurrency=rng.randrange(1, 4), delay=rng.choice([None, 0, 0.02]))
    elif what == 3:
        frontier.admin.revive(host=host)
    elif what == 4:
        frontier.admin.cancel(host)
    elif what == 5:
        frontier.admin.purge(reason="r3")
    elif what == 6:
        frontier.forget(urls[0])


def test_a_user_who_may_not_scan_learns_it(own_server, crawl):
    server = own_server()
    with server.client() as client:
        client.execute_command("ACL SETUSER s on >pw ~* &* +@all -scan")
    with SyncFrontier.open(f"unix://s:pw@{server.socket}", crawl=crawl) as frontier:
        frontier.enqueue("https://a.example/")
        found = frontier.admin.fsck()
        assert (found.damages, len(found.notes)) == ([], 1)
        assert "SCAN" in found.notes[0]


def test_every_kind_of_server_can_be_checked(any_server, crawl):
    with SyncFrontier.open(any_server.url, crawl=crawl, shards=3, politeness=FAST) as frontier:
        frontier.enqueue([f"https://h{n}.example/" for n in range(30)])
        frontier.bury(frontier.claim()[0], "no")
        found = frontier.admin.fsck(repair=True)
        assert (found.damages, found.notes) == ([], [])
        assert (found.hosts, found.letters, found.queued, found.seen) == (29, 1, 29, 30)
        frontier.admin.remove()
