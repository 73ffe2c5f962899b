import pytest

from silkline.core.scope import Scope, site_of
from silkline.core.url import parse
from silkline.errors import ConfigError

HOME = parse("https://www.shop.co.uk/list")


def objection(scope, url, depth=1):
    return scope.objection(parse(url), HOME, depth)


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("shop.example.co.uk:8080", "example.co.uk"),
        ("example.com", "example.com"),
        ("a.github.io", "a.github.io"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:8080", "[::1]"),
        ("localhost:5000", "localhost"),
        ("co.uk", "co.uk"),
    ],
)
def test_a_site_is_what_somebody_has_registered(host, site):
    assert site_of(host) == site


def test_links_stay_on_the_site_unless_allowed():
    assert objection(Scope(), "https://img.shop.co.uk/x") is None
    assert objection(Scope(), "https://other.co.uk/x") == "another site"
    assert objection(Scope(stay="host"), "https://img.shop.co.uk/x") == "another host"
    assert objection(Scope(stay="anywhere"), "https://other.co.uk/x") is None


def test_patterns_allow_and_deny():
    scope = Scope(allow=(r"/p/\d+", "/list"), deny=("sort=",))
    assert objection(scope, "https://www.shop.co.uk/p/7") is None
    assert objection(scope, "https://www.shop.co.uk/about") == "not allowed"
    assert objection(scope, "https://www.shop.co.uk/list?sort=up") == "denied"


def test_depth_files_and_long_urls():
    assert objection(Scope(max_depth=2), "https://www.shop.co.uk/x", 2) is None
    assert objection(Scope(max_depth=2), "https://www.shop.co.uk/x", 3) == "too deep"
    assert objection(Scope(), "https://www.shop.co.uk/x/y.PDF?download") == "file type"
    assert objection(Scope(skip_extensions=frozenset()), "https://www.shop.co.uk/y.pdf") is None
    assert objection(Scope(), "https://www.shop.co.uk/v1.2/page") is None
    assert objection(Scope(), "https://www.shop.co.uk/" + "x" * 2_000) == "too long"


def test_a_path_that_repeats_itself_is_a_trap():
    assert objection(Scope(), "https://www.shop.co.uk/a/b/a/b/a/b") is None
    assert objection(Scope(), "https://www.shop.co.uk/a/b/a/b/a/b/a/b") == "trap"
    assert objection(Scope(max_repeats=10), "https://www.shop.co.uk/a/b/a/b/a/b/a/b") is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"stay": "home"}, "'home'"),
        ({"allow": "x"}, "list of regular expressions"),
        ({"deny": ("(",)}, "not a regular expression"),
        ({"max_depth": -1}, "at least 0"),
        ({"max_links": 0}, "at least 1"),
    ],
)
def test_nonsense_is_refused_at_once(wrong, words):
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        Scope(**wrong)
