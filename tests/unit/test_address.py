"""What is said aloud of a server's address."""

from __future__ import annotations

import pytest

from silkline.frontier.address import without_password


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
