"""What comes in, and what does not."""

from __future__ import annotations

import datetime as dt

import pytest

from silkline import Admission, Complete, Request
from silkline.errors import FrontierError, InvalidUrl
from tests.contract.frontiers import page, paths, urls

ADDED, SEEN, REFUSED = Admission.ADDED, Admission.SEEN, Admission.REFUSED

filters = pytest.mark.parametrize("seen", ["exact", "compact", "bloom", "bloom:0.001,100"])


@filters
async def test_a_request_is_taken_in_once(open_crawl, seen):
    frontier = await open_crawl(seen=seen)
    assert await frontier.enqueue(["https://a.example/", "https://a.example/"]) == [ADDED, SEEN]
    assert await frontier.enqueue("https://a.example/") == [SEEN]
    assert (await frontier.admin.stats()).seen == 1


@filters
async def test_a_request_stays_seen_after_it_is_done(open_crawl, seen):
    frontier = await open_crawl(seen=seen)
    await frontier.enqueue("https://a.example/")
    [lease] = await frontier.claim()
    assert await frontier.enqueue("https://a.example/") == [SEEN]
    await frontier.complete(lease)
    assert await frontier.enqueue("https://a.example/") == [SEEN]


@filters
async def test_many_requests_are_each_taken_in_once(open_crawl, seen):
    frontier = await open_crawl(seen=seen)
    batch = [page(number, f"h{number % 50}.example") for number in range(2500)]
    first = await frontier.enqueue(batch)
    assert first.count(SEEN) <= 12  # the coarsest filter here errs once in a thousand
    assert first.count(ADDED) + first.count(SEEN) == len(batch)
    assert set(await frontier.enqueue(batch)) == {SEEN}


@pytest.mark.parametrize(
    "spelling",
    [
        "HTTPS://A.example/x?b=2&a=1",
        "https://a.example:443/x?a=1&b=2",
        "https://a.example/x?a=1&b=2#part",
        "https://a.example/%78?a=1&b=2",
        "https://a.example/./y/../x?a=1&&b=2",
        "  https://a.example/x?a=1&b=2 ",
    ],
)
async def test_two_spellings_of_a_url_are_one_page(frontier, spelling):
    await frontier.enqueue("https://a.example/x?a=1&b=2")
    assert await frontier.enqueue(spelling) == [SEEN]


@pytest.mark.parametrize(
    "other",
    [
        Request("http://a.example/x"),
        Request("https://a.example:8443/x"),
        Request("https://user@a.example/x"),
        Request("https://a.example/X"),
        Request("https://a.example/x?"),
        Request("https://a.example/x", method="HEAD"),
        Request("https://a.example/x", method="POST", body=b"q=1"),
        Request("https://a.example/x", body=b"q=1"),
    ],
)
async def test_what_asks_for_something_else_is_another_request(frontier, other):
    await frontier.enqueue("https://a.example/x")
    expected = SEEN if other.url.endswith("?") else ADDED  # an empty query asks for the same
    assert await frontier.enqueue(other) == [expected]


async def test_meta_headers_and_priority_do_not_make_another_request(frontier):
    await frontier.enqueue("https://a.example/x")
    again = Request("https://a.example/x", meta={"n": 1}, headers={"Accept": "*/*"}, priority=7, handler="h", depth=2)
    assert await frontier.enqueue(again) == [SEEN]


async def test_dont_filter_passes_the_seen_filter_and_leaves_no_mark_in_it(frontier):
    always = Request("https://a.example/", dont_filter=True)
    assert await frontier.enqueue([always, always, "https://a.example/", always]) == [ADDED] * 4
    assert await frontier.enqueue("https://a.example/") == [SEEN]
    assert (await frontier.admin.stats()).seen == 1
    assert len(await frontier.claim(10)) == 4


async def test_a_forgotten_request_can_be_enqueued_again(frontier):
    await frontier.enqueue(["https://a.example/1", "https://a.example/2"])
    await frontier.settle([(lease, Complete()) for lease in await frontier.claim(10)])
    assert await frontier.forget(["https://a.example/1", "https://a.example/1", "https://a.example/never"]) == 1
    assert await frontier.enqueue(["https://a.example/1", "https://a.example/2"]) == [ADDED, SEEN]
    assert paths(await frontier.claim(10)) == ["1"]
    assert (await frontier.admin.stats()).seen == 2


@pytest.mark.parametrize("seen", ["exact", "compact"])
async def test_forget_takes_requests_and_urls_one_or_many(open_crawl, seen):
    frontier = await open_crawl(seen=seen)
    post = Request("https://a.example/", method="POST", body=b"x")
    await frontier.enqueue([post, "https://a.example/"])
    assert await frontier.forget("https://a.example/") == 1
    assert await frontier.forget("https://a.example/") == 0
    assert await frontier.forget(post) == 1
    assert (await frontier.admin.stats()).seen == 0


async def test_a_bloom_filter_cannot_forget_and_says_so(open_crawl):
    frontier = await open_crawl(seen="bloom")
    await frontier.enqueue("https://a.example/")
    with pytest.raises(FrontierError, match="bloom"):
        await frontier.forget("https://a.example/")
    assert await frontier.enqueue("https://a.example/") == [SEEN]


async def test_forgetting_what_is_no_url_is_an_error(frontier):
    with pytest.raises(InvalidUrl):
        await frontier.forget("nonsense")


@pytest.mark.parametrize("seen", ["exact", "compact", "bloom"])
async def test_a_request_whose_identity_was_marked_is_seen(open_crawl, seen):
    """On whichever shard it would be: an identity does not tell its host."""
    frontier = await open_crawl(seen=seen, shards=4)
    await frontier.mark_seen([b"one", b"two", b"one"])
    await frontier.mark_seen([])
    marked = [Request(f"https://{host}.example/", identity=b"one") for host in "abcdefgh"]
    assert await frontier.enqueue(marked) == [SEEN] * 8
    assert (
        await frontier.enqueue([Request("https://a.example/", identity=b"three"), "https://a.example/"]) == [ADDED] * 2
    )
    assert await frontier.enqueue(Request("https://b.example/", identity=b"two", dont_filter=True)) == [ADDED]
    stats = await frontier.admin.stats()
    assert (stats.accepted, stats.ready) == (3, 3)
    assert stats.conserved


class Circular(dict):
    def __init__(self):
        super().__init__()
        self["self"] = self


BAD = [
    ("", "empty"),
    ("   ", "empty"),
    ("/relative", "absolute"),
    ("a.example/x", "absolute"),
    ("//a.example/x", "absolute"),
    ("https://", "not a valid URL"),
    ("https://a b.example/", "not a valid URL"),
    ("https://a.example:99999/", "not a valid URL"),
    ("https://[::1/", "not a valid URL"),
    ("ftp://a.example/x", "ftp"),
    ("javascript:alert(1)", "javascript"),
    ("mailto:a@a.example", "mailto"),
    ("data:text/html,x", "data"),
    ("file:///etc/passwd", "file"),
    ("https://a.example/\x00", "control"),
    ("https://a.example/a\r\nSET x y", "control"),
    ("https://a.example/\x7f", "control"),
    ("https://a.example/\ud800", "valid"),
    ("https://\udcff.example/", "valid"),
    ("https://a.example/" + "x" * 9000, "8192"),
    ("https://a.example/" + "\u00e9" * 4000, "8192"),
    (None, "NoneType"),
    (7, "int"),
    (b"https://a.example/", "bytes"),
    (["https://a.example/"], "list"),
    (Request(None), "NoneType"),
    (Request("https://a.example/", priority=1001), "priority"),
    (Request("https://a.example/", priority=-1001), "priority"),
    (Request("https://a.example/", priority=1.5), "priority"),
    (Request("https://a.example/", priority=True), "priority"),
    (Request("https://a.example/", priority="9"), "priority"),
    (Request("https://a.example/", depth=-1), "depth"),
    (Request("https://a.example/", depth="1"), "depth"),
    (Request("https://a.example/", method="GET\r\nX"), "method"),
    (Request("https://a.example/", method=""), "method"),
    (Request("https://a.example/", method=None), "method"),
    (Request("https://a.example/", body="text"), "body"),
    (Request("https://a.example/", headers={"a": 1}), "headers"),
    (Request("https://a.example/", headers=[("a", "b")]), "headers"),
    (Request("https://a.example/", headers={"a": "\ud800"}), "cannot be stored"),
    (Request("https://a.example/", meta={1: 2}), "meta"),
    (Request("https://a.example/", meta=None), "meta"),
    (Request("https://a.example/", meta={"x": object()}), "cannot be stored"),
    (Request("https://a.example/", meta={"x": 2**70}), "cannot be stored"),
    (Request("https://a.example/", meta={"x": "\udcff"}), "cannot be stored"),
    (Request("https://a.example/", meta=Circular()), "cannot be stored"),
    (Request("https://a.example/", meta={"x": "y" * 70_000}), "65536"),
    (Request("https://a.example/", body=b"y" * 70_000), "65536"),
    (Request("https://a.example/", handler=7), "handler"),
    (Request("https://a.example/", handler="\ud800"), "cannot be stored"),
    (Request("https://a.example/", not_before=-1), "not_before"),
    (Request("https://a.example/", not_before="tomorrow"), "not_before"),
    (Request("https://a.example/", not_before=float("nan")), "not_before"),
    (Request("https://a.example/", not_before=float("inf")), "not_before"),
    (Request("https://a.example/", not_before=True), "not_before"),
    (Request("https://a.example/", dont_filter="no"), "dont_filter"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=range(len(BAD)))
async def test_what_cannot_be_crawled_is_refused_with_a_reason_and_the_rest_goes_in(frontier, bad, reason):
    answers = await frontier.enqueue(["https://a.example/1", bad, "https://a.example/2"])
    assert answers == [ADDED, REFUSED, ADDED]
    [refusal] = answers.refusals
    assert refusal.position == 1
    assert refusal.request is bad
    assert reason in refusal.reason
    leases = await frontier.claim(10)
    assert paths(leases) == ["1", "2"]
    assert (await frontier.admin.stats()).accepted == 2


async def test_links_are_refused_one_by_one_too(frontier):
    await frontier.enqueue("https://a.example/")
    [lease] = await frontier.claim()
    links = [bad for bad, _ in BAD]
    settlement = await frontier.complete(lease, ["https://a.example/1", *links, "https://b.example/2"])
    assert settlement.links == [ADDED, *[REFUSED] * len(links), ADDED]
    assert [refusal.position for refusal in settlement.links.refusals] == list(range(1, len(links) + 1))
    assert sorted(paths(await frontier.claim(10))) == ["1", "2"]


async def test_an_empty_batch_is_no_batch(frontier):
    assert await frontier.enqueue([]) == []
    assert await frontier.forget([]) == 0
    assert await frontier.extend([]) == []
    assert (await frontier.settle([])).lost == []


async def test_requests_may_come_from_a_generator(frontier):
    assert await frontier.enqueue(page(number) for number in range(3)) == [ADDED] * 3


async def test_the_tally_counts_the_answers(frontier):
    answers = await frontier.enqueue(["https://a.example/", "https://a.example/", "no"])
    assert answers.tally() == {ADDED: 1, SEEN: 1, REFUSED: 1}


async def test_a_request_comes_out_as_it_went_in(frontier):
    request = Request(
        "http://user:pass@b.example:8080/p%20q?z=1&a=%C3%A9",
        method="post",
        headers={"X-Name": "käse"},
        body=bytes(range(256)),
        meta={"big": 2**53 + 1, "nested": {"list": [1, None, True, 1.5]}, "text": "ß\n\x1e\x00"},
        priority=-3,
        depth=4,
        handler="product",
        dont_filter=True,
    )
    await frontier.enqueue(request)
    [lease] = await frontier.claim()
    out = lease.request
    assert (out.url, out.method) == (request.url, "POST")
    for name in ("headers", "body", "meta", "priority", "depth", "handler", "dont_filter"):
        assert getattr(out, name) == getattr(request, name)
    assert lease.host == "b.example:8080"


@pytest.mark.parametrize("url", ["https://a.example/", "http://a.example/", "https://a.example/%0A?%00=\u20ac"])
async def test_a_plain_url_comes_out_as_it_went_in(frontier, url):
    await frontier.enqueue(url)
    [lease] = await frontier.claim()
    assert lease.request == Request(url.replace("\u20ac", "%E2%82%AC"))


async def test_what_msgpack_can_carry_may_be_in_meta(frontier):
    when = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    await frontier.enqueue(Request("https://a.example/", meta={"pair": (1, 2), "bytes": b"\xff", "when": when}))
    [lease] = await frontier.claim()
    assert lease.request.meta["pair"] == [1, 2]
    assert lease.request.meta["bytes"] == b"\xff"


async def test_hosts_in_every_alphabet_are_hosts(frontier):
    await frontier.enqueue(["https://münchen.example/ä", "https://[::1]:8080/x", "https://127.0.0.1/y"])
    assert sorted(urls(await frontier.claim(10))) == [
        "https://127.0.0.1/y",
        "https://[::1]:8080/x",
        "https://xn--mnchen-3ya.example/%C3%A4",
    ]


@filters
async def test_an_identity_of_the_giver_decides_what_is_the_same(open_crawl, seen):
    frontier = await open_crawl(seen=seen)
    one, same = Request("https://a.example/1", identity=b"x"), Request("https://b.example/2", identity=b"x")
    assert await frontier.enqueue([one]) == [ADDED]
    assert await frontier.enqueue([Request(one.url)]) == [ADDED]  # by its URL it is another
    if (await frontier.admin.stats()).shards == 1:
        assert await frontier.enqueue([same]) == [SEEN]
    assert await frontier.enqueue([Request(one.url, identity=b"y"), one]) == [ADDED, SEEN]


async def test_an_identity_is_not_stored_and_can_be_forgotten(open_crawl):
    frontier = await open_crawl()
    request = Request("https://a.example/", meta={"k": 1}, identity=b"x" * 20)
    await frontier.enqueue([request])
    [lease] = await frontier.claim()
    assert lease.request == Request("https://a.example/", meta={"k": 1})
    assert await frontier.forget([request]) == 1
    assert await frontier.enqueue([request]) == [ADDED]


async def test_an_identity_is_bytes(open_crawl):
    frontier = await open_crawl()
    answers = await frontier.enqueue([Request("https://a.example/", identity="text")])
    assert answers == [REFUSED]
    assert "identity must be bytes" in answers.refusals[0].reason
