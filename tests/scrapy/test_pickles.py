"""The reader of pickles: plain data comes out as it went in, and nothing else comes out, runs or takes for ever."""

from __future__ import annotations

import builtins
import operator
import os
import pickle
import pickletools
import random
import struct
import subprocess
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silkline.scrapy.convert.classes import StoredObject
from silkline.scrapy.convert.values import pack, unpack
from silkline.scrapy.migrate.pickles import MAX_BYTES, UnsafePickle, loads
from tests.scrapy.test_classes import VALUES, Color, Right, ran

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
        "path": marker,
        "class": dict,
        "object": object(),
        "own class": Stateful,
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


def test_an_object_of_a_project_is_a_name_and_its_fields():
    value = {"url": "http://a.example/", "meta": {"deep": [Stateful()]}}
    assert loads(pickle.dumps(value, -1))["meta"]["deep"] == [StoredObject("o", f"{__name__}.Stateful", {"a": 1})]
    called = Trap(traps, "x")
    assert loads(pickle.dumps(called, -1)) == StoredObject("e", f"{__name__}.traps", "x"), "and nothing ran"


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_items_of_scrapy_redis_come_back_as_what_they_were(value, protocol):
    if isinstance(value, Mapping) and any(type(key) is not str and not isinstance(key, int) for key in value):
        with pytest.raises(UnsafePickle, match="as a key"):
            loads(pickle.dumps(value, protocol))
        return
    ran.clear()
    again = unpack(pack(loads(pickle.dumps(value, protocol)), "meta"))
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    assert ran == []


def test_members_that_are_pickled_by_name_come_back():
    """As Python 3.11.0 to 3.11.3 write them, and later ones if a project chooses it."""
    red, read, write = (Trap(getattr, cls, name) for cls, name in ((Color, "RED"), (Right, "READ"), (Right, "WRITE")))
    for written, value in ((red, Color.RED), (Trap(operator.or_, read, write), Right.READ | Right.WRITE)):
        assert unpack(pack(loads(pickle.dumps({"x": written}, -1)), "meta")) == {"x": value}
    for refused in (Trap(getattr, "x", "join"), Trap(operator.or_, read, red), Trap(operator.or_, 1, 2)):
        with pytest.raises(UnsafePickle):
            loads(pickle.dumps(refused, -1))
    with pytest.raises(UnsafePickle, match=r"calls builtins\.getattr"):
        loads(OS_SYSTEM)


OS_SYSTEM = b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93\x8c\x02os\x8c\x04path\x93\x8c\x06system\x86R."

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
    "a class of a number": b"\x80\x04K\x01K\x02\x93.",
    "a class of no name": b"\x80\x04\x8c\x01a\x8c\x00\x93)\x81.",
    "a class with a long name": b"\x80\x04\x8c\x01aX" + struct.pack("<I", 300) + b"b" * 300 + b"\x93)\x81}b.",
    "a class without an end": b"\x80\x04cshop",
    "an object of Python": b"\x80\x04\x8c\x02io\x8c\x07BytesIO\x93)\x81}b.",
    "a function of Python called": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "a function called with two arguments": b"\x80\x04\x8c\x04shop\x8c\x03run\x93K\x01K\x02\x86R.",
    "arguments that are a list": b"\x80\x04\x8c\x04shop\x8c\x03run\x93]R.",
    "an object without state": b"\x80\x04\x8c\x04shop\x8c\x04Item\x93)\x81.",
    "a state twice": b"\x80\x04\x8c\x04shop\x8c\x04Item\x93)\x81}b}b.",
    "a tuple with attributes": b"\x80\x04\x8c\x04shop\x8c\x04Pair\x93K\x01K\x02\x86\x81}b.",
    "the state of a date": b"\x80\x04\x8c\x08datetime\x8c\x04date\x93C\x04\x07\xea\x01\x01\x85R}b.",
    "fields without names": b"\x80\x04\x8c\x04shop\x8c\x04Item\x93)\x81}K\x01K\x02sb.",
    "a date of text": b"\x80\x04\x8c\x08datetime\x8c\x04date\x93\x8c\x0a2026-01-01\x85R.",
    "a date that does not exist": b"\x80\x04\x8c\x08datetime\x8c\x04date\x93C\x04\x07\xea\x0d\x01\x85R.",
    "a time in a zone of its own": b"\x80\x04\x8c\x08datetime\x8c\x04time\x93C\x06\0\0\0\0\0\0K\x01\x86R.",
    "an endless timedelta": b"\x80\x04\x8c\x08datetime\x8c\x09timedelta\x93G\x7f\xf0\0\0\0\0\0\0\x85R.",
    "a dict that calls a function": b"\x80\x04\x8c\x0bcollections\x8c\x0bdefaultdict\x93\x8c\x02os\x8c\x06system\x93\x85R.",
    "a dict of pairs": b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93](K\x01K\x02\x86e\x85R.",
    "a zone that is a path": pickle.dumps(ZoneInfo("Asia/Tokyo"), 4).replace(b"\x8c\x0aAsia/Tokyo", b"\x8c\x0a../../x/yz"),
    "another attribute of a zone": pickle.dumps(ZoneInfo("UTC"), 4).replace(b"\x8c\x09_unpickle", b"\x8c\x09from_file"),
    "a UUID of text": b"\x80\x04\x8c\x04uuid\x8c\x04UUID\x93)\x81}\x8c\x03int\x8c\x01xsb.",
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


def nested_key(levels):
    """One tuple of a tuple twice, and so on: its hash takes 2^levels steps."""
    return b")q\x00" + b"".join(b"h%c\x86q%c" % (level, level + 1) for level in range(levels))


BOMBS = {
    "a billion lists": laughs("list", 45),
    "a billion tuples": laughs("tuple", 45),
    "a billion tuples as a key": b"\x80\x04}" + nested_key(60) + b"Ns.",
    "a billion tuples in a set": b"\x80\x04\x8f(" + nested_key(60) + b"\x90.",
    "a billion tuples in a frozenset": b"\x80\x04(" + nested_key(60) + b"\x91.",
    "a long text ten thousand times": b"\x80\x04](X" + struct.pack("<I", 60_000) + b"x" * 60_000 + b"\x94" + b"h\0" * 9999 + b"e.",
    "lists in lists in lists": b"\x80\x04" + b"(" * 400_000 + b"l" * 400_000 + b".",
    "tuples in tuples in tuples": b"\x80\x04)" + b"\x85" * 900_000 + b".",
    "deep tuples as a key": b"\x80\x04})" + b"\x85" * 900_000 + b"Ns.",
    "a list in itself": b"\x80\x04]\x94h\0a.",
    "a dict in itself": b"\x80\x04}\x94Nh\0s.",
    "a number of 60,000 bytes": pickle.dumps(1 << 480_000, -1),
    "a number of 140 bits": pickle.dumps(1 << 140, -1),
    "a million digits": pickle.dumps(Decimal("9" * 900_000), -1),
    "many copies of a large dict": pickle.dumps(dict.fromkeys(range(9000)), 4)[:-1] + b"\x94\x8c\x0bcollections\x94\x8c\x07Counter"
    b"\x93q\x05(" + b"h\x05h\x01\x85R" * 20_000 + b"l.",
    "an object that is its own state": b"\x80\x04\x8c\x04shop\x8c\x04Item\x93)\x81\x94}\x8c\x01ah\0sb.",
    "an enum of itself": b"\x80\x04]\x94\x8c\x04shop\x8c\x05Color\x93h\0\x85Ra.",
    "too many numbers": pickle.dumps(list(range(100_000)), -1),
    "too long": pickle.dumps("x" * (MAX_BYTES + 1), -1),
    "marks without end": b"\x80\x04" + b"(" * 900_000,
}  # fmt: skip


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
