"""Which calls a client names, and when their slots are free again."""

from __future__ import annotations

from contextlib import suppress

from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.store.record import Offer
from silkline.frontier.transport.calls import AcknowledgedCalls, FailedEnqueues, IdempotencySlots, format_names
from silkline.frontier.verbs.enqueue import enqueue_command

SHARD = "shard"


def names(carried):
    return sorted(call.name[1] for call in carried)


def test_a_call_stands_for_those_that_it_named_and_frees_their_slots():
    freed = []
    calls = AcknowledgedCalls(freed.append)
    calls.confirm(SHARD, calls.last(SHARD), ("c:0", "1"), 0)
    carried = calls.last(SHARD)
    assert format_names(carried) == "c:0 1"
    assert calls.last("another") == ()
    calls.confirm(SHARD, carried, ("c:1", "2"), 1)
    assert freed == [0]
    assert names(calls.last(SHARD)) == ["2"]


def test_calls_that_ran_side_by_side_are_all_named():
    calls = AcknowledgedCalls(lambda _: None)
    calls.confirm(SHARD, (), ("c:0", "1"), 0)
    one, other = calls.last(SHARD), calls.last(SHARD)
    calls.confirm(SHARD, one, ("c:1", "2"), 1)
    calls.confirm(SHARD, other, ("c:2", "3"), 2)
    assert names(calls.last(SHARD)) == ["2", "3"]


def test_of_very_many_only_the_last_are_named():
    freed = []
    calls = AcknowledgedCalls(freed.append)
    for number in range(100):
        calls.confirm(SHARD, (), (f"c:{number}", str(number)), number)
    assert names(calls.last(SHARD)) == [str(number) for number in range(83, 100)]
    assert freed == list(range(83))


def test_a_slot_is_not_free_while_a_call_on_its_way_names_it():
    freed = []
    calls = AcknowledgedCalls(freed.append)
    calls.confirm(SHARD, (), ("c:0", "1"), 0)
    one, other = calls.last(SHARD), calls.last(SHARD)
    calls.confirm(SHARD, one, ("c:1", "2"), 1)
    assert freed == []
    calls.release(other, late=False)
    assert freed == [0]


def test_a_slot_that_a_late_call_may_name_is_never_free():
    freed = []
    calls = AcknowledgedCalls(freed.append)
    calls.confirm(SHARD, (), ("c:0", "1"), 0)
    calls.release(calls.last(SHARD), late=True)
    calls.confirm(SHARD, calls.last(SHARD), ("c:1", "2"), 1)
    assert freed == []


def test_who_had_nothing_to_say_for_long_cannot_know_and_counts_a_loss(monkeypatch):
    freed = []
    calls = AcknowledgedCalls(freed.append)
    calls.confirm(SHARD, (), ("c:0", "1"), 0)
    monkeypatch.setattr("silkline.frontier.transport.calls.NAMED_FOR", -1.0)
    assert calls.last(SHARD) == ()
    assert calls.losses == 1
    assert freed == [0]
    assert calls.last(SHARD) == ()
    assert calls.losses == 1


def test_what_was_sent_lately_is_owed_to_the_shard_that_lost_it_and_no_more_is_kept_than_fits(monkeypatch):
    calls = AcknowledgedCalls(lambda _: None)
    command = enqueue_command(CrawlKeys("books").shard(0), [])
    for shard in (SHARD, "another", SHARD):
        calls.keep(shard, command)
    calls.lose(SHARD, ())
    assert [calls.next_lost(SHARD) for _ in range(3)] == [command, command, None]
    assert calls.next_lost("another") is None
    monkeypatch.setattr("silkline.frontier.transport.calls.SENT_AGAIN_FOR", -1.0)
    calls.keep("another", command)
    calls.lose("another", ())
    assert calls.next_lost("another") is None


def test_a_slot_that_was_lent_is_free_when_its_owner_and_all_who_name_it_are_done():
    freed = []
    calls = AcknowledgedCalls(freed.append)
    calls.confirm(SHARD, (), ("c:0", "1"), None, lent=True)
    carried = calls.last(SHARD)
    assert names(carried) == ["1"]
    calls.give_back(("c:0", "1"), 0)
    assert freed == []
    calls.confirm(SHARD, carried, ("c:1", "2"), None, lent=True)
    assert freed == [0]
    calls.confirm(SHARD, calls.last(SHARD), ("c:2", "3"), 2)
    assert freed == [0]  # its owner may send it again
    calls.give_back(("c:1", "2"), 1)
    assert freed == [0, 1]
    assert not calls._lent


def test_a_slot_that_was_lent_is_never_free_if_its_owner_says_so_or_a_late_call_may_name_it():
    freed = []
    calls = AcknowledgedCalls(freed.append)
    calls.confirm(SHARD, (), ("c:0", "1"), None, lent=True)
    calls.give_back(("c:0", "1"), None)
    calls.confirm(SHARD, calls.last(SHARD), ("c:1", "2"), None, lent=True)
    calls.release(calls.last(SHARD), late=True)
    calls.give_back(("c:1", "2"), 1)
    calls.confirm(SHARD, calls.last(SHARD), ("c:2", "3"), 2)
    assert freed == []
    assert not calls._lent


def test_the_slot_of_an_enqueue_that_failed_before_is_never_free():
    """The sending that failed may still be on its way: under a name that another call has taken it would be stored again."""
    slots = IdempotencySlots()
    freed = []
    repeats = FailedEnqueues(slots, lambda _, slot: freed.append(slot))
    offer = Offer(0, None, 0, "member", "a.example", "0 0 d -", "record")
    with suppress(OSError), repeats.naming() as naming:
        first = naming.name([offer])
        raise OSError("no reply")
    with repeats.naming() as naming:
        assert naming.name([offer]) == first
    assert freed == [None, None]
    with repeats.naming() as naming:
        assert naming.name([offer]) != first
    assert freed[2] is not None
    assert not slots._doubtful


def test_names_that_are_made_of_a_page_are_not_remembered_forever():
    slots = IdempotencySlots()
    slots.sent_again(("links:0123", "1"))
    assert not slots._doubtful
