"""Records: what waits in a queue, how small it is, and what a later version wrote."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silkline import Request
from silkline.core.lease import FailedAttempt
from silkline.core.request import MAX_RECORD_BYTES, RequestBatch, check, host_of
from silkline.core.url import parse
from silkline.errors import InvalidUrl, NewerData, RequestError, RequestTooLarge
from silkline.frontier.store import record as codec
from silkline.frontier.store.phrases import PAIRS, SINGLES
from silkline.frontier.store.record import shorten
from silkline.frontier.store.settings import NEWEST_SCHEMA, SeenFilter, Settings

frequent = st.sampled_from([phrase[1:].decode() for phrase in PAIRS if phrase[0] == 0x9F + len(phrase)])
metas = st.dictionaries(
    st.text(max_size=5) | frequent,
    st.recursive(
        st.none() | st.integers(-(2**63), 2**64 - 1) | st.integers(-20, 0) | st.text(max_size=5) | frequent,
        st.lists,
        max_leaves=4,
    ),
    max_size=2,
)
requests = st.builds(
    Request,
    st.sampled_from(["https://a.example/x?y=1", "http://a.example:81/", "https://me:pw@a.example/\u00fc"]),
    method=st.sampled_from(["GET", "POST", "PUT"]),
    headers=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    body=st.binary(max_size=20),
    meta=metas,
    priority=st.integers(-1000, 1000),
    depth=st.integers(0, 20),
    handler=st.none() | st.text(max_size=5),
    dont_filter=st.booleans(),
    cookies=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    auth=st.none() | st.tuples(st.text(max_size=5), st.text(max_size=5)),
    timeout=st.none() | st.floats(0.1, 1e5),
    redirects=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    download_slot=st.sampled_from([None, None, "proxy-1"]),
    retries=st.none() | st.lists(st.floats(0, 1e5), max_size=3).map(tuple),
    max_attempts=st.none() | st.integers(1, 101),
    expires=st.none() | st.floats(1e9, 1e10),
    session=st.sampled_from([None, False, "account-1"]),
    args=st.dictionaries(
        st.text(max_size=5) | frequent, st.none() | st.integers(-20, 20) | st.text(max_size=5), max_size=2
    ),
)
times, words, statuses = st.floats(0, 1e10), st.text(max_size=9), st.none() | st.integers(100, 599)
trials = st.lists(st.builds(FailedAttempt, times, words, statuses, st.just("")), max_size=3)


def as_bytes(record):
    return record.encode() if isinstance(record, str) else record


@given(requests, trials)
def test_a_request_comes_back_as_it_went(request, history):
    address = parse(request.url)
    record = as_bytes(codec.encode(request, address, tuple(history)))
    back, trials_back = codec.decode(record, host_of(request, address), request.priority)
    assert back == msgspec.structs.replace(request, url=address.url)
    assert trials_back == tuple(history)


@given(requests, st.text("abcXYZ019-_", max_size=12), metas, st.integers(0, 2**40))
def test_requests_that_are_encoded_together_come_back_as_they_went(template, end, meta, number):
    address = parse(template.url)
    batch = RequestBatch(template, [end, "other"], [meta, {"number": number}])
    assert list(batch[:1]) == [msgspec.structs.replace(template, url=template.url + end, meta=meta)]
    encoder = codec.BatchEncoder(template, address)
    for request, one_end, one_meta in zip(batch, batch.ends, batch.metas, strict=True):
        encoded = encoder.encode(one_end, one_meta)
        if encoded is None:
            continue  # codes in the meta, or a template that is shorter without
        back, _ = codec.decode(encoded, host_of(request, address), request.priority)
        assert back == msgspec.structs.replace(request, url=address.url + one_end)


def test_calls_of_a_task_are_encoded_together():
    template = Request("https://visit/", handler="visit", dont_filter=True)
    encoder = codec.BatchEncoder(template, parse(template.url))
    call = encoder.encode("x" * 12, {"sku": "a", "size": 3})
    alone = codec.encode(
        msgspec.structs.replace(template, url="https://visit/" + "x" * 12, meta={"sku": "a", "size": 3}),
        parse("https://visit/" + "x" * 12),
    )
    assert call is not None
    assert len(call) <= len(alone) + 5  # its arguments are not shortened
    assert encoder.encode("x", {"half": "\ud800"}) is None
    assert encoder.encode("x", {"long": "x" * MAX_RECORD_BYTES}) is None
    assert encoder.encode("x", {}) is None


@given(requests, trials, st.none() | st.integers(0, 2**33), st.integers(-codec.AHEAD, codec.TIMES - codec.AHEAD - 1))
def test_a_stored_record_has_the_time_if_it_is_known(request, history, created, later):
    address = parse(request.url)
    record = codec.stored(codec.without_slash(codec.encode(request, address, tuple(history))), created)
    assert (record >= codec.TIMED) == (created is not None)
    near = (created or 0) + later
    back, trials_back, time = codec.decode_stored(record, host_of(request, address), request.priority, float(near))
    assert back == msgspec.structs.replace(request, url=address.url)
    assert (trials_back, time) == (tuple(history), created)


@pytest.mark.parametrize("url", ["https://a.example/x?y=1", "http://a.example/x", "https://a.example/"])
def test_the_time_of_a_plain_get_takes_two_bytes(url):
    record = codec.encode(Request(url), parse(url))
    assert len(codec.stored(codec.without_slash(record), 1.0)) == len(record) + 2
    assert codec.stored(codec.without_slash(record), None) == as_bytes(record)
    assert codec.without_slash(record) == codec.plain_without_slash(parse(url))


def test_the_detail_of_the_last_trial_is_kept():
    address = parse("https://a.example/")
    history = (FailedAttempt(1.0, "a", None, "old"), FailedAttempt(2.0, "b", None, "x" * 50_000 + "end"))
    record = as_bytes(codec.encode(Request("https://a.example/"), address, history))
    _, (first, last) = codec.decode(record, address.host, 0)
    assert first.detail == ""
    assert last.detail.endswith("xend")
    assert len(last.detail) == codec.MAX_DETAIL


@pytest.mark.parametrize(("url", "record"), [("https://a.example/x?y=1", "/x?y=1"), ("http://a.example/x", "\x01/x")])
def test_a_plain_get_is_its_path_and_query(url, record):
    assert codec.encode(Request(url), parse(url)) == record


def test_only_a_request_with_a_download_slot_stores_its_host():
    request = Request("https://a.example/x", depth=1)
    assert codec.encode(request, parse(request.url)) == b"\x03/x\x00\xf8\x01\xc1\x1e"
    slotted = msgspec.structs.replace(request, download_slot="proxy-1")
    assert codec.encode(slotted, parse(request.url)) == b"\x03/x\x00\xf8\x02\xc1\x1e\xa1g\xa9a.example"


def test_history_gives_way_before_the_request_does():
    request = Request("https://a.example/", body=b"x" * (MAX_RECORD_BYTES - 400))
    history = tuple(FailedAttempt(float(number), "r" * 100) for number in range(9))
    record = as_bytes(codec.encode(request, parse(request.url), history))
    assert len(record) <= MAX_RECORD_BYTES
    back, kept = codec.decode(record, "a.example", 0)
    assert back.body == request.body
    assert kept == history[-len(kept) :] != ()


def test_a_request_over_64_kib_is_refused():
    with pytest.raises(RequestTooLarge):
        codec.encode(Request("https://a.example/", body=b"x" * MAX_RECORD_BYTES), parse("https://a.example/"))


@dataclasses.dataclass(frozen=True)
class Key:
    number: int


def test_meta_that_could_not_be_read_again_is_refused():
    """It can be written; read by a claim, it would hold up all others."""
    with pytest.raises(RequestError, match="cannot be stored"):
        codec.encode(Request("https://a.example/", meta={"a": {Key(1): 2}}), parse("https://a.example/"))


@pytest.mark.parametrize(
    "record", [b"\x03/x", b"\x7f", b"", b"\x80\x04\x95", b"\x02\xff", b"\x02", b"\x02\x80", b"\x03"]
)
def test_a_format_of_a_later_version_is_refused_and_not_guessed(record):
    with pytest.raises(NewerData, match=r"a\.example"):
        codec.decode(record, "a.example", 0)


EARLIER = b"\x02\xde\x00\x04\xa1p\xa2/x\xa1t\x81\xa1m\x81\xa4item\xff\xa1d\x01\xa1n\xaaparse_item"
LATER = b"\x03/x\0\xf6\x81\xc1:\xc1\xff\xfb\xc1\x10"


@pytest.mark.parametrize("record", [EARLIER, LATER], ids=["earlier", "shortened"])
def test_records_of_both_formats_are_read(record):
    stored = Request("https://a.example/x", meta={"m": {"item": -1}}, depth=1, handler="parse_item")
    assert codec.decode(record, "a.example", 0) == (stored, ())
    assert codec.encode(stored, parse(stored.url)) == LATER


def test_a_phrase_of_a_later_version_is_refused_too():
    with pytest.raises(NewerData, match=r"a\.example"):
        codec.decode(b"\x03/x\0\xc1\xf4", "a.example", 0)


def test_a_few_bytes_do_not_become_a_huge_request():
    longest = max(SINGLES, key=len)
    for bomb in (shorten(longest) * MAX_RECORD_BYTES, shorten(longest) * (MAX_RECORD_BYTES - 10), b"\0" * 2**20):
        with pytest.raises(NewerData, match="more than 65536 bytes"):
            codec.decode(b"\x03/x\0" + bomb, "a.example", 0)


@given(st.sampled_from(["/a/b.html", "/parse_item/name", "/x?a=https://www.b.example/", "/%00%C1"]), st.integers(1, 9))
def test_explain_finds_the_path_in_a_record(path, depth):
    request = Request(f"https://a.example{path}", depth=depth)
    address = parse(request.url)
    record = codec.encode(request, address)
    assert address.path.encode() in record
    assert codec.decode(record, "a.example", 0)[0].url == request.url


def test_no_path_has_the_byte_that_ends_it():
    with pytest.raises(InvalidUrl, match="control characters"):
        parse("https://a.example/a\0b")


def test_a_record_that_would_get_longer_is_not_shortened():
    request = Request("https://a.example/x", body=b"\xc1\xff" * 20_000)
    record = codec.encode(request, parse(request.url))
    assert record[:1] == codec.RICH
    assert len(record) < 40_100
    assert codec.decode(record, "a.example", 0)[0] == request


@pytest.mark.parametrize("filler", [b"x", b"\xff"])
def test_no_record_is_over_64_kib(filler):
    for size in range(MAX_RECORD_BYTES - 50, MAX_RECORD_BYTES):
        request = Request("https://a.example/", body=filler * size)
        try:
            record = codec.encode(request, parse(request.url))
        except RequestTooLarge:
            assert size > MAX_RECORD_BYTES - 40
        else:
            assert len(record) <= MAX_RECORD_BYTES
            assert codec.decode(record, "a.example", 0)[0] == request


def test_a_field_of_a_later_version_is_refused_too():
    with pytest.raises(NewerData, match="fields"):
        codec.decode(codec.RICH + msgspec.msgpack.encode({"p": "/", "q": 1}), "a.example", 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": 1001},
        {"priority": 1.0},
        {"priority": True},
        {"depth": -1},
        {"method": "GET /"},
        {"method": ""},
        {"body": "text"},
        {"headers": {"a": 1}},
        {"meta": {1: 2}},
        {"meta": []},
        {"handler": print},
        {"not_before": "tomorrow"},
        {"not_before": float("inf")},
        {"not_before": float("nan")},
    ],
)
def test_fields_that_mean_nothing_are_refused(wrong):
    with pytest.raises(RequestError):
        check(Request("https://a.example/", **wrong))


def test_settings_of_a_later_schema_are_refused():
    later = msgspec.json.encode({"schema": NEWEST_SCHEMA + 1, "shards": "many"})
    with pytest.raises(NewerData, match="upgrade"):
        Settings.decode(later)


@pytest.mark.parametrize("text", ["exact", "compact", "bloom:0.0001", "bloom:0.01,1000000", "bloom:1e-06,10000000000"])
def test_a_seen_filter_is_written_as_it_is_read(text):
    assert str(SeenFilter.parse(text)) == text
    assert Settings.decode(Settings(seen=SeenFilter.parse(text)).encode()).seen == SeenFilter.parse(text)


def test_what_most_requests_have_is_not_stored():
    """However its strings were made: a default is left out by identity, and strings that are read are new objects."""
    scheme, verb = b"https".decode(), b"GET".decode()
    url = f"{scheme}://a.example/x"
    record = codec.encode(Request(url, method=verb, depth=1), parse(url))
    assert record == b"\x03/x\0" + shorten(b"\xde\x00\x01\xa1d\x01")
    assert len(record) == 8
