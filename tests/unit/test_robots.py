"""What a robots.txt allows, however it is written."""

from __future__ import annotations

import math
import time

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from protego import Protego

from silkline.core.robots import COSTLY, MAX_BYTES, name_of, read_robots

AGENT = "Silkline/0.1 (books; +https://example.com/bot)"


def allowed(text, *paths, agent=AGENT):
    robots = read_robots(text.encode() if isinstance(text, str) else text, agent)
    return [path for path in paths if robots.allows(f"https://a.example{path}")]


# ── whose rules ──────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_group_with_our_name_holds_and_not_the_one_for_anyone():
    text = "User-agent: *\nDisallow: /\n\nUser-agent: SILKLINE\nDisallow: /private\n"
    assert allowed(text, "/", "/private/x") == ["/"]
    assert allowed(text, "/", "/private/x", agent="Other/1.0") == []


def test_without_our_name_the_group_for_anyone_holds():
    assert allowed("User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /a\n", "/a", "/b") == ["/b"]


def test_without_either_everything_is_allowed():
    assert allowed("User-agent: other\nDisallow: /\n", "/") == ["/"]


@pytest.mark.parametrize("agent", ["silkline", "Silkline/2.0", "SilkLine (anything)", "silkline bot"])
def test_our_name_may_come_with_a_version(agent):
    assert allowed(f"User-agent: {agent}\nDisallow: /\n", "/") == []


@pytest.mark.parametrize("agent", ["silk", "silkline-images", "notsilkline", "bot", "", "books"])
def test_a_name_that_is_nearly_ours_is_not_ours(agent):
    assert allowed(f"User-agent: {agent}\nDisallow: /\n", "/") == ["/"]


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Silkline/0.1 (+https://x.example)", "silkline"),
        ("my_bot-2", "my_bot-2"),
        ("Mozilla/5.0 (compatible; Foobot/1.0; +https://x.example)", "foobot"),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "mozilla"),
        ("", ""),
        ("(odd)", "(odd)"),
    ],
)
def test_the_name_is_the_product_of_the_user_agent(user_agent, name):
    assert name_of(user_agent) == name


def test_groups_with_one_name_are_joined():
    text = "User-agent: silkline\nDisallow: /a\n\nUser-agent: x\nDisallow: /b\n\nUser-agent: silkline\nDisallow: /c\n"
    assert allowed(text, "/a", "/b", "/c") == ["/b"]


def test_several_agents_share_a_group_and_a_rule_ends_their_list():
    text = "User-agent: x\nUser-agent: silkline\n\n# both\nDisallow: /a\nUser-agent: y\nDisallow: /b\n"
    assert allowed(text, "/a", "/b") == ["/b"]


def test_an_empty_rule_ends_the_list_too_and_our_group_then_allows_all():
    text = "User-agent: silkline\nDisallow:\nUser-agent: *\nDisallow: /\n"
    assert allowed(text, "/") == ["/"]


def test_lines_that_mean_nothing_and_sitemaps_do_not_end_a_list():
    text = "User-agent: silkline\nNoindex: /\nSitemap: https://a.example/s.xml\nUser-agent: x\nDisallow: /a\n"
    assert allowed(text, "/a", "/b") == ["/b"]


def test_rules_before_any_agent_are_nobodys():
    assert allowed("Disallow: /\nUser-agent: *\nDisallow: /a\n", "/", "/a") == ["/"]


# ── which paths (RFC 9309, 2.2.2 and 2.2.3) ──────────────────────────────────────────────────────────────────────────
def test_the_longest_match_decides_and_of_equals_the_kinder():
    text = "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\nAllow: /same\nDisallow: /same\n"
    assert allowed(text, "/a", "/a/b", "/a/b/c", "/same", "/") == ["/a/b", "/same", "/"]


def test_stars_and_dollars():
    text = "User-agent: *\nDisallow: *.gif$\nDisallow: /x*y\nDisallow: /only$\n"
    assert allowed(text, "/p/a.gif", "/p/a.gif?b", "/x12y3", "/x12", "/only", "/only/") == [
        "/p/a.gif?b",
        "/x12",
        "/only/",
    ]


def test_escapes_are_one_whatever_they_are_written_like():
    text = "User-agent: *\nDisallow: /ä\nDisallow: /%7Ejoe\nDisallow: /q?a=%3d\n"
    assert allowed(text, "/%C3%A4", "/%c3%a4/x", "/~joe", "/q?a==", "/a") == ["/a"]


def test_robots_txt_itself_may_always_be_fetched():
    assert allowed("User-agent: *\nDisallow: /\n", "/robots.txt", "/x") == ["/robots.txt"]


@pytest.mark.parametrize(
    "line", ["Disallow /a", "disallow:/a", "DISALLOW : /a  # no", "Dissalow: /a", "\tDisallow:\t/a"]
)
def test_common_slips_are_forgiven(line):
    assert allowed(f"User agent: *\n{line}\n", "/a", "/b") == ["/b"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_way(end):
    assert allowed(end.join(["User-agent: *", "Disallow: /a", "Allow: /a/b"]), "/a", "/a/b") == ["/a/b"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_it_may_be_encoded_in_any_way(encoding):
    assert allowed("User-agent: *\nDisallow: /a\n# ä".encode(encoding), "/a", "/b") == ["/b"]


@pytest.mark.parametrize(
    "text", [b"", b"\0" * 1000, bytes(range(256)) * 100, b"<html><body>User-agent: none</body>", b"\xff\xfe\x00"]
)
def test_what_is_no_robots_txt_forbids_nothing(text):
    assert allowed(text, "/") == ["/"]


def test_zeros_do_not_hide_a_rule():
    assert allowed(b"User-agent: *\0\nDis\0allow: /\n", "/") == []


# ── the rest of it ───────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("value", "delay"),
    [("5", 5), ("0.5", 0.5), ("0", 0), ("1e9", 60), ("61", 60), ("nan", None), ("inf", None), ("-1", None), ("soon", None), ("", None)],
)  # fmt: skip
def test_a_crawl_delay_is_clamped(value, delay):
    robots = read_robots(f"User-agent: *\nCrawl-delay: {value}\n".encode(), AGENT)
    assert robots.crawl_delay == delay
    assert robots.allows("https://a.example/")


def test_the_crawl_delay_is_that_of_our_group():
    text = b"User-agent: *\nCrawl-delay: 9\n\nUser-agent: silkline\nCrawl-delay: 2\n"
    assert read_robots(text, AGENT).crawl_delay == 2
    assert read_robots(text, "other").crawl_delay == 9
    assert read_robots(text, "other", max_crawl_delay=3).crawl_delay == 3


def test_sitemaps_are_listed_wherever_they_stand_if_they_are_urls():
    text = (
        b"Sitemap: https://a.example/1.xml\nUser-agent: x\nSitemap: /relative\nsitemap:http://b.example/2.xml # two\n"
    )
    assert read_robots(text, AGENT).sitemaps == ("https://a.example/1.xml", "http://b.example/2.xml")


def test_it_expires_when_its_reader_says():
    assert read_robots(b"", AGENT, expires=5.0).expires == 5
    assert read_robots(b"", AGENT).expires == math.inf


# ── hostile ones ─────────────────────────────────────────────────────────────────────────────────────────────────────
def seconds_for(work):
    began = time.process_time()
    work()
    return time.process_time() - began


HOSTILE = {
    "a million rules": b"User-agent: *\n" + b"".join(b"Disallow: /%x\n" % number for number in range(1_000_000)),
    "agents times rules": b"".join(b"User-agent: b%d\n" % n for n in range(15_000))
    + b"User-agent: *\n"
    + b"".join(b"Disallow: /%d\n" % n for n in range(15_000)),
    "agents behind odd line ends": b"User-agent: *\nDisallow: /"
    + b"".join(b"\x0bUser-agent: b%d" % n for n in range(10_000))
    + b"\n"
    + b"".join(b"Disallow: /%d\n" % n for n in range(15_000)),
    "the same agent": b"User-agent: *\n" * 40_000,
    "wildcards": b"User-agent: *\n" + b"".join(b"Disallow:/*%x\n" % number for number in range(40_000)),
    "stars": b"User-agent: *\n" + (b"Disallow: /" + b"*a" * 4000 + b"b\n") * 70,
    "needles": b"User-agent: *\n"
    + b"".join(b"Disallow: /*%sb%s\n" % (b"a" * (200 + n // 16), b"a" * (n % 16 + 1)) for n in range(1_800)),
    "escaped needles": b"User-agent: *\n"
    + b"".join(b"Disallow: /*%sb%s\n" % (b"&" * (200 + n // 16), b"&" * (n % 16 + 1)) for n in range(1_800)),
    "one line": b"User-agent: *\nDisallow: /" + b"*a" * 300_000,
    "stars only": b"User-agent: *\nDisallow: " + b"*" * 400_000 + b"$\n",
    "spaces": b" " * 600_000,
    "colons": b":" * 600_000,
    "empty lines": b"\n" * 600_000,
    "sitemaps": b"Sitemap: https://a.example/\n" * 30_000,
    "escapes": b"User-agent: *\nDisallow: /" + b"%41" * 150_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_one_costs_no_more_than_its_length_allows(text):
    """Processor seconds, generously: protego alone takes minutes for some of them."""
    robots = read_robots(text[: MAX_BYTES * 2], AGENT)
    assert seconds_for(lambda: read_robots(text, AGENT)) < 10
    for url in ("https://a.example/" + "a" * 8000, "https://a.example/" + "0" * 100, "https://a.example/1/"):
        assert seconds_for(lambda url=url: robots.allows(url)) < 2


def test_what_would_take_too_long_to_match_is_not_fetched():
    text = b"User-agent: *\n" + b"".join(b"Disallow: /*never%d\n" % number for number in range(5_000))
    robots = read_robots(text, AGENT)
    assert robots.allows("https://a.example/short")
    assert not robots.allows("https://a.example/" + "x" * (COSTLY // 5_000))


@pytest.mark.parametrize("letter", ["a", "&", "%61", "%26", "6"])
def test_no_needle_takes_longer_than_was_estimated(letter):
    """Rules that are just cheap enough, against the URL that costs most; without the estimate it is seconds."""
    url = "https://a.example/" + letter * (8000 // len(letter))
    needle = letter * 300
    for count in (10, 40, 160, 640, 1500):
        text = "User-agent: *\n" + "".join(f"Disallow: /*{needle}b{n}{letter}\n" for n in range(count))
        robots = read_robots(text[:MAX_BYTES].encode(), AGENT)
        robots.allows(url)
        assert seconds_for(lambda robots=robots: robots.match(url)) < 0.2


def test_many_ordinary_rules_decide_on_a_long_url():
    words = [f"/*/section-{n:04}/printable-version" for n in range(3_000)]
    robots = read_robots("\n".join(["User-agent: *", *(f"Disallow: {word}" for word in words)]).encode(), AGENT)
    url = "https://shop.example/" + "catalogue/of/many-things/" * 12
    assert robots.match(url) is True
    assert robots.match(url + "section-2999/printable-version") is False


def test_a_url_that_would_take_too_long_is_reported_from_one_that_is_forbidden():
    robots = read_robots(HOSTILE["needles"], AGENT)
    assert robots.match("https://a.example/" + "a" * 1900) is None
    assert robots.match("https://a.example/short") is True


def test_what_lies_behind_the_limit_is_not_read_and_no_rule_is_cut_in_two():
    padding = b"#" * (MAX_BYTES - 40) + b"\n"
    text = b"User-agent: *\n" + padding + b"Disallow: /abcdefghijklmnop\nDisallow: /b\n"
    assert allowed(text, "/a", "/abcdefghijklmnop", "/b") == ["/a", "/abcdefghijklmnop", "/b"]
    assert allowed(b"x" * (MAX_BYTES * 2), "/") == ["/"]


paths = st.text(st.sampled_from("/ab*$%?=é"), max_size=8)
lines = st.one_of(
    st.builds("User-agent: {}".format, st.sampled_from(["*", "silkline", "other"])),
    st.builds("Disallow: /{}".format, paths),
    st.builds("Allow: /{}".format, paths),
    st.sampled_from(["", "# note", "Crawl-delay: 3", "Disallow:"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, max_size=12), st.lists(st.text(st.sampled_from("/ab%?=é"), max_size=8), min_size=1, max_size=4))
def test_it_decides_as_protego_does(written, asked):
    text = "\n".join(written)
    theirs, ours = Protego.parse(text), read_robots(text.encode(), "silkline")
    for path in asked:
        url = f"https://a.example/{path}"
        assert ours.allows(url) == theirs.can_fetch(url, "silkline"), (text, url)
    assert ours.crawl_delay == theirs.crawl_delay("silkline")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2000), st.text(max_size=50))
def test_whatever_it_holds_nothing_is_raised(text, path):
    robots = read_robots(text, AGENT)
    robots.allows(f"https://a.example/{path}")
    assert robots.crawl_delay is None or 0 <= robots.crawl_delay <= 60
