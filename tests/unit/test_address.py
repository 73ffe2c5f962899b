"""What is said aloud of a server's address."""

from __future__ import annotations

import pytest

from silkline.errors import ConfigError
from silkline.frontier.transport.clients import starts_of
from silkline.frontier.transport.redis_url import read_url, without_password


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h", "redis://h"),
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://u:p@h", "redis://***@h"),
        ("redis://:p@ss@h", "redis://***@h"),
        ("redis://:p@ss@h:6379/1?socket_timeout=2", "redis://***@h:6379/1?socket_timeout=2"),
        ("redis://:pa/ss@h/0", "redis://***@h/0"),
        ("redis://:pa?ss@h/0", "redis://***@h/0"),
        ("rediss+cluster://u:p@h1,h2:7000", "rediss+cluster://***@h1,h2:7000"),
        ("redis+sentinel://:p@h1:26379,h2/main/0", "redis+sentinel://***@h1:26379,h2/main/0"),
        ("redis://h/0?password=secret", "redis://h/0?password=***"),
        ("redis://h/0?password=se@cret", "redis://h/0?password=***"),
        ("redis://h/0?db=1&PASSWORD=se@cret&socket_timeout=2", "redis://h/0?db=1&PASSWORD=***&socket_timeout=2"),
        ("redis+sentinel://h/main/0?sentinel_password=secret", "redis+sentinel://h/main/0?sentinel_password=***"),
        ("redis://u:p@h?password=se@cret", "redis://***@h?password=***"),
        ("redis://u:p@h?client_name=a@b", "redis://***@h?client_name=a@b"),
        ("unix:///run/valkey.sock?db=1", "unix:///run/valkey.sock?db=1"),
        ("unix:///run/valkey.sock?password=se@cret", "unix:///run/valkey.sock?password=***"),
        ("unix://u:se@cret@/run/valkey.sock", "unix://***@/run/valkey.sock"),
        ("embedded:.silkline", "embedded:.silkline"),
        ("embedded:/home/a@b/data", "embedded:/home/a@b/data"),
        ("--redis=redis://:p@ss@h", "--redis=redis://***@h"),
        ("books.py", "books.py"),
    ],
)
def test_no_password_is_said_and_the_rest_stays(url, said):
    assert without_password(url) == said


@pytest.mark.parametrize(
    ("url", "starts"),
    [
        ("redis+cluster://h1:7000", [("h1", 7000)]),
        ("redis+cluster://h1:7000,h2:7001", [("h1", 7000), ("h2", 7001)]),
        ("rediss+cluster://u:p,q@h1,h2:7001/0?socket_timeout=2", [("h1", 6379), ("h2", 7001)]),
        ("redis+cluster://[::1]:7000,[::1]:7001,h3", [("::1", 7000), ("::1", 7001), ("h3", 6379)]),
    ],
)
def test_the_address_of_a_cluster_may_name_several_nodes(url, starts):
    target = read_url(url)
    assert starts_of(target) == starts
    assert target.kind == "cluster"


@pytest.mark.parametrize("url", ["redis+cluster://h1,", "redis+cluster://h1,h2:x", "redis+cluster://h1,h2/3"])
def test_an_address_of_several_nodes_that_cannot_be_read_is_refused(url):
    with pytest.raises(ConfigError, match="cluster"):
        read_url(url)
