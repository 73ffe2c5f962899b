"""Calls of several tasks that are sent together: what is wrong with one of them is not the others' fault."""

from __future__ import annotations

import asyncio

from silkline.frontier.transport.nodes import AsyncNodes
from silkline.frontier.transport.redis_url import read_url


async def test_a_command_that_cannot_be_sent_fails_alone(valkey):
    nodes = AsyncNodes(read_url(valkey.url), "silkline-test")
    node = await nodes.any()
    words = [("ECHO", "half \udcff a pair" if number == 20 else f"{number}") for number in range(40)]
    replies = await asyncio.gather(*(node.run(*one) for one in words), return_exceptions=True)
    await node.close()
    assert isinstance(replies.pop(20), UnicodeError)
    assert replies == [f"{number}".encode() for number in range(40) if number != 20]
