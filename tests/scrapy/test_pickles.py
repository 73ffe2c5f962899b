"""The reader of pickles: plain data comes out as it went in, and nothing else comes out, runs or takes for ever."""

from __future__ import annotations

import builtins
import os
import pickle
import pickletools
import random
import struct
import subprocess
from collections import OrderedDict, deque
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silkline.scrapy.pickles import MAX_BYTES, UnsafePickle, loads

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
)
plain = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(scalars, inner, max_size=5),
        st.tuples(inner, inner),
        st.lists(inner, max_size=5).map(tuple),
        st.sets(scalars, max_size=5),
        st.frozensets(scalars, max_size=5),
    ),
    max_leaves=30,
)


@given(plain, st.sampled_from([4, 5]))
def test_plain_data_comes_out_as_it_went_in(value, protocol):
    written = pickle.dumps(value, protocol)
    assert loads(written) == value
    assert loads(pickletools.optimize(written)) == value


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(-(2**63), 2**64 - 1), st.lists(st.text()))))
def test_older_protocols_are_read_too(value):
    assert loads(pickle.dumps(value, 2)) == value
    assert loads(pickle.dumps(value, 3)) == value


def test_what_is_shared_is_shared_again():
    part = ["x"]
    first, second = loads(pickle.dumps([part, part], -1))
    assert first is second


class Trap:
    """Pickles to a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class Stateful:
    def __setstate__(self, state):
        raise AssertionError("it ran")

    def __getstate__(self):
        return {"a": 1}


def traps(marker):
    """Pickles that would leave a file behind if anything of them ran."""
    command = f"touch {marker}"
    return {
        "os.system": Trap(os.system, command),
        "eval": Trap(builtins.eval, f"open({str(marker)!r}, 'w').close()"),
        "exec": Trap(builtins.exec, f"open({str(marker)!r}, 'w').close()"),
        "subprocess": Trap(subprocess.getoutput, command),
        "open": Trap(open, str(marker), "w"),
        "touch": Trap(Path.touch, marker),
        "getattr": Trap(getattr, "", "join"),
        "state": Stateful(),
        "datetime": datetime.now(UTC),
        "decimal": Decimal(1),
        "path": marker,
        "ordered": OrderedDict(a=1),
        "deque": deque([1]),
        "class": dict,
        "complex": 1j,
        "bytearray": bytearray(b"x"),
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", sorted(traps(Path("x"))))
def test_what_is_more_than_plain_data_is_refused_and_does_not_run(tmp_path, kind, protocol):
    marker = tmp_path / "ran"
    trap = traps(marker)[kind]
    for value in (trap, {"url": "http://a.example/", "meta": {"deep": [trap]}}, {"url": trap}):
        written = pickle.dumps(value, protocol)
        for one in (written, pickletools.optimize(written)):
            with pytest.raises(UnsafePickle):
                loads(one)
    assert not marker.exists()


@pytest.mark.parametrize("name", ["os.system", "eval"])
def test_the_traps_are_real(tmp_path, name):
    """Or the test above would prove nothing."""
    marker = tmp_path / "ran"
    pickle.loads(pickle.dumps(traps(marker)[name], -1))
    assert marker.exists()


HAND_WRITTEN = {
    "inst": b"\x80\x02(S'true'\nios\nsystem\n.",
    "obj": b"\x80\x02(cos\nsystem\nX\x04\x00\x00\x00trueo.",
    "global alone": b"\x80\x02cos\nsystem\n.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "ext1": b"\x80\x02\x82\x01.",
    "ext4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "persid": b"\x80\x02Pid\n.",
    "binpersid": b"\x80\x02K\x01Q.",
    "build": b"\x80\x02}}b.",
    "newobj": b"\x80\x02K\x01)\x81.",
    "next buffer": b"\x80\x05\x97.",
    "protocol 0": b"cos\nsystem\n(S'true'\ntR.",
    "protocol 9": b"\x80\x09N.",
    "nothing": b"",
    "one byte": b"\x80",
    "no stop": b"\x80\x04N",
    "empty stack": b"\x80\x04.",
    "a mark is no value": b"\x80\x04(.",
    "two values": b"\x80\x04NN.",
    "no such memo": b"\x80\x04h\x05.",
    "memo of an empty stack": b"\x80\x04\x94.",
    "huge memo index": b"\x80\x04Nr\xff\xff\xff\xffj\xff\xff\xff\x7f.",
    "append to a number": b"\x80\x04K\x01K\x02a.",
    "items on a list": b"\x80\x04](K\x01K\x02u.",
    "an odd number of items": b"\x80\x04}(K\x01u.",
    "a list as a key": b"\x80\x04}(]K\x02u.",
    "a tuple as a key": b"\x80\x04}()K\x02u.",
    "a list in a set": b"\x80\x04\x8f(]\x90.",
    "a mark is missing": b"\x80\x04}K\x01K\x02u.",
    "a text longer than the rest": b"\x80\x04X\xff\xff\xff\x7fabc.",
    "a text of 2^63 bytes": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
    "bytes longer than the rest": b"\x80\x04B\xff\xff\xff\xffabc.",
    "no UTF-8": b"\x80\x04X\x01\x00\x00\x00\xff.",
    "a number of minus one byte": b"\x80\x04\x8b\xff\xff\xff\xff.",
    "a number of 2 GB": b"\x80\x04\x8b\xff\xff\xff\x7f.",
    "half a number": b"\x80\x04J\x01.",
    "half a float": b"\x80\x04G\x01.",
}  # fmt: skip


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_what_no_pickler_writes_is_refused(name):
    with pytest.raises(UnsafePickle):
        loads(HAND_WRITTEN[name])


def laughs(kind, levels):
    """Each level holds the one below twice: a few bytes, 2^levels values."""
    start, make = {
        "list": (b"]\x94", lambda i: b"](" + b"h" + bytes([i]) * 1 + b"h" + bytes([i]) + b"e\x94"),
        "tuple": (b")\x94", lambda i: b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86\x94"),
    }[kind]
    return b"\x80\x04" + start + b"".join(make(i) for i in range(levels)) + b"\x85."


BOMBS = {
    "a billion lists": laughs("list", 45),
    "a billion tuples": laughs("tuple", 45),
    "a billion tuples as a key": b"\x80\x04}" + laughs("tuple", 45)[2:-1] + b"Ns.",
    "a long text ten thousand times": b"\x80\x04](X" + struct.pack("<I", 60_000) + b"x" * 60_000 + b"\x94" + b"h\0" * 9999 + b"e.",
    "lists in lists in lists": b"\x80\x04" + b"(" * 400_000 + b"l" * 400_000 + b".",
    "tuples in tuples in tuples": b"\x80\x04)" + b"\x85" * 900_000 + b".",
    "deep tuples as a key": b"\x80\x04})" + b"\x85" * 900_000 + b"Ns.",
    "a list in itself": b"\x80\x04]\x94h\0a.",
    "a dict in itself": b"\x80\x04}\x94Nh\0s.",
    "a number of 60,000 bytes": pickle.dumps(1 << 480_000, -1),
    "a number of 65 bits": pickle.dumps(1 << 64, -1),
    "too many numbers": pickle.dumps(list(range(100_000)), -1),
    "too long": pickle.dumps("x" * (MAX_BYTES + 1), -1),
    "marks without end": b"\x80\x04" + b"(" * 900_000,
}  # fmt: skip


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_before_they_grow(name):
    with pytest.raises(UnsafePickle):
        loads(BOMBS[name])


REQUEST = pickle.dumps({"url": "http://a.example/", "meta": {"depth": 1}, "headers": {b"A": [b"b"]}, "body": b""}, -1)


@pytest.mark.parametrize("end", range(len(REQUEST)))
def test_a_pickle_that_is_cut_off_is_refused(end):
    with pytest.raises(UnsafePickle):
        loads(REQUEST[:end])


def test_damaged_pickles_are_refused_or_are_other_plain_data():
    rng = random.Random(7)
    for _ in range(5000):
        damaged = bytearray(REQUEST)
        for _ in range(rng.randint(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            loads(bytes(damaged))
        except UnsafePickle:
            continue
