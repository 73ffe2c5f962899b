"""What is concluded from the errors of a node."""

import time
from types import SimpleNamespace

import pytest
import redis

from silkline.errors import StoreUnavailable
from silkline.frontier.transport.cluster import Address, Health, SlotTable, as_redis_error
from silkline.frontier.transport.redis_errors import FAULTS, NodeDown, is_out_of_reach, translate


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("'NoneType' object has no attribute 'recv'"),
        ValueError("I/O operation on closed file"),
        RuntimeError("unable to perform operation on the transport; the handler is closed"),
        IndexError("pop from an empty deque"),
    ],
)
def test_what_redis_py_raises_when_a_connection_is_closed_under_a_call_is_a_broken_connection(error):
    fault = as_redis_error(error)
    assert isinstance(fault, FAULTS)
    assert is_out_of_reach(fault)
    ours = translate(fault, "redis://h")
    assert isinstance(ours, StoreUnavailable)
    assert str(error) in str(ours)


@pytest.mark.parametrize(
    "error",
    [UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), redis.ResponseError("NOCRAWL"), OSError(5)],
)
def test_errors_of_the_caller_and_of_the_server_stay_what_they_are(error):
    assert as_redis_error(error) is error


def test_a_node_that_is_down_is_asked_once_in_a_while_and_spared_between():
    health = Health("127.0.0.1:7000")
    assert not health.must_probe()
    health.failed(time.monotonic() - 3, redis.ConnectionError("Connection refused."))
    assert health.must_probe(), "the first caller looks at once"
    with pytest.raises(NodeDown, match="Connection refused") as raised:
        health.must_probe()
    assert time.monotonic() - raised.value.since >= 3
    health.replied()
    assert not health.must_probe()


def test_a_client_of_a_node_without_slots_is_closed_when_its_calls_have_ended():
    gone, here = Address("127.0.0.1", 1), Address("127.0.0.1", 2)
    slots = [[0, 16383, (b"127.0.0.1", 2)]]
    table, nodes = SlotTable(), {gone: SimpleNamespace(idle=False), here: SimpleNamespace(idle=False)}
    table.read(slots, here)
    assert table.idle_without_slots(nodes) == []
    assert table.must_refresh(), "or it would stay open until the slots move once more"
    nodes[gone].idle = True
    table.read(slots, here)
    assert table.idle_without_slots(nodes) == [gone]
    assert not table.must_refresh()
