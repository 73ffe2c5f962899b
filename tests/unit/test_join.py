import re

import ada_url
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from silkline.core.url import join, parse
from silkline.errors import RequestError

BASE = "http://a.example:8080/b/c;d/e.html?f=g&h"

pieces = st.sampled_from(
    [
        "/",
        "//",
        "\\",
        "?",
        "#",
        ":",
        "@",
        ".",
        "..",
        "./",
        "../",
        "http:",
        "HTTP:",
        "https:",
        "mailto:",
        "a",
        "b c",
        "é",
        "%41",
        "\t",
        "\n",
        " ",
        "x=1",
        "&",
        "b.example",
        "[::1]",
        ":80",
        "",
    ]
)
hrefs = st.lists(pieces, max_size=8).map("".join) | st.text(max_size=20)


@given(hrefs, st.sampled_from([BASE, "https://u:p@a.example/", "http://a.example/x/y/?q#f", "http://[::1]/a"]))
@settings(max_examples=2_000)
@example("http:/x", BASE)
@example("http:\\\\x/y", BASE)
@example("https:x", BASE)
@example("?", BASE)
@example(" \t#", BASE)
def test_a_link_means_what_a_browser_says(href, base):
    assume(
        not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff^]", href)
    )  # refused by us; "^" changed with the standard
    assume(not re.search(r"\.[^./?#]", href))  # the parser we use leaves a dot too many in "/.x/."
    address = parse(base)
    try:
        expected = parse(ada_url.join_url(base, href))
    except (ValueError, RequestError):
        with pytest.raises(RequestError):
            join(address, href)
    else:
        assert join(address, href) == expected
