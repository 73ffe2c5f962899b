from __future__ import annotations

import pytest

from silkline.frontier.verbs.enqueue import enqueue_command
from tests.scripts.waiting import GROUP, HOUR, START, call_record, claim, enqueue, open_group, report, taken, watch

LONG = "x" * 300
ENDS = {
    "completed": ("d", lambda shard, token: shard.run("settle", 1, token)),
    "completed with a result": (
        "d",
        lambda shard, token: shard.run("settle", 0, token, "complete", 1000, "id", 1000, "1"),
    ),
    "buried": ("f", lambda shard, token: shard.run("settle", 0, token, "bury", "id", "no", "", "")),
}


@pytest.mark.parametrize(
    ("how", "name", "meta"),
    [
        ("completed", "7", {}),
        ("completed with a result", "=a%20key", {"text": "é" * 20}),
        ("buried", "=" + "y" * 60, {"text": "é" * 20}),
        ("completed", "=" + "y" * 400, {"text": "é" * 20}),
        ("buried", "=" + "y" * 400, {"text": LONG}),
    ],
    ids=["plain", "not shortened", "with a key", "with a long key", "long"],
)
def test_the_end_of_a_watched_call_is_noted(shard, how, name, meta):
    outcome, end = ENDS[how]
    watch(shard, f"step/{name}", 3)
    enqueue(shard, f"https://step/{name}", "https://step/other", **meta)
    for token in claim(shard):
        assert taken(shard) == []
        reply = end(shard, token)
        if b"!" in reply:
            break
    assert taken(shard) == [f"{GROUP} b 3 {outcome}"]
    assert taken(shard, f"{GROUP} b 3 {outcome}") == []


def test_the_calls_of_a_batch_are_noted_once(shard, client, clock):
    watch(shard, "step/abcdefghi*", 2)
    enqueue(shard, "https://step/abcdefghi000", "https://step/abcdefghi000", "https://step/abcdefghi001")
    noted = []
    for verdict in ("complete", "bury", "complete"):
        clock.advance(5)
        (token,) = claim(shard, 1)
        shard.run("settle", *((1, token) if verdict == "complete" else (0, token, verdict, "id", "no", "", "")))
        noted.append(taken(shard))
    assert noted == [[f"{GROUP} b 0 d"], [f"{GROUP} b 0 d"], [f"{GROUP} b 0 d", f"{GROUP} b 1 d"]]
    assert client.exists(f"{shard.root}:watches", f"{shard.root}:watch_times") == 0


def test_a_retry_is_no_end(shard):
    watch(shard, "step/7", 3)
    enqueue(shard, "https://step/7")
    shard.run("settle", 0, *claim(shard), "retry", 1000, "", "", "")
    assert taken(shard) == []


@pytest.mark.parametrize("reason", ["", "cancelled by its caller"])
def test_a_call_that_is_dropped_has_failed(shard, reason):
    watch(shard, "step/7", 3)
    enqueue(shard, "https://step/7")
    (reference,) = shard.run("requests", "ready", "step", 10, "")[2::3]
    assert shard.run("drop", reason, b"ready:" + reference) == b"1"
    assert taken(shard) == [f"{GROUP} b 3 f"]


def test_calls_that_are_discarded_with_their_host_have_failed(shard):
    watch(shard, "step/abcdefghi*", 999)
    watch(shard, "step/late", 7, batch="c")
    for beginning in "abcdefghi", "jklmnopqr":
        enqueue(shard, *(f"https://step/{beginning}{number:03}" for number in range(999)))
    late = shard.offer("https://step/late", f"0 {START + 5000} d -", call_record("https://step/late"))
    shard.send(enqueue_command(shard.keys, [late]))
    dropped, position = 0, b"0"
    while position:
        count, position = shard.run("discard", "step", position)
        dropped += count
    assert dropped == 2 * 999 + 1
    assert shard.get("queued") == 0
    notes = shard.run("take_ended", 5000)[1:]
    assert len(notes) == 1000
    assert all(note.endswith(b" f") for note in notes)


def test_a_call_with_three_strikes_has_failed(shard, clock):
    watch(shard, "step/7", 3)
    enqueue(shard, "https://step/7")
    while tokens := claim(shard, policy="alone"):
        shard.run("begin", *tokens)
        clock.advance(61)
    assert taken(shard) == [f"{GROUP} b 3 f"]


def test_old_watches_are_deleted(shard, client, clock):
    watch(shard, "step/7", 3)
    clock.advance(HOUR / 1000)
    taken(shard)
    assert client.exists(f"{shard.root}:watches", f"{shard.root}:watch_times") == 0


def test_it_returns_how_many_groups_are_overdue(shard, clock):
    open_group(shard)
    assert shard.run("take_ended", 100) == [0]
    clock.advance(HOUR / 1000)
    assert shard.run("take_ended", 100) == [1]
    report(shard)
    assert shard.run("take_ended", 100) == [0]
