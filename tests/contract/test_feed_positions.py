"""How far feeds were read is stored with their crawl."""

from __future__ import annotations


async def test_a_position_is_that_of_the_latest_reader(open_bare):
    frontier = await open_bare()
    assert await frontier.internal.feed_position("/x") == b""
    assert await frontier.internal.feed_position("/x", 5, b"one") == b"one"
    assert await frontier.internal.feed_position("/x", 4, b"two") == b"one"
    assert await (await open_bare()).internal.feed_position("/x") == b"one"
    assert await frontier.internal.feed_position("/y") == b""
