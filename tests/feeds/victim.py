"""Feeds a crawl in a process of its own, and dies at a given step.

Run by the tests as ``python victim.py JSON``. Every command of feeding has two steps, one before it and one after it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from silkline import Frontier
from silkline.worker.feeds import feeder
from silkline.worker.feeds.feeder import Feeding
from silkline.worker.feeds.file_feed import FileFeed
from silkline.worker.feeds.redis_key import RedisFeed

COMMANDS = {"inbox_take", "inbox_ack", "inbox_reject", "enqueue", "add_dead", "feed_position"}


class Bomb:
    def __init__(self, step):
        self.left = step

    def step(self, sent):
        if sent.command.script.name not in COMMANDS:
            return
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def arm(self, connection):
        call, evalsha, read = connection._call, connection._evalsha, connection._read

        async def called(sent, **options):
            self.step(sent)
            answer = await call(sent, **options)
            self.step(sent)
            return answer

        def sending(sent):
            if sent.command.script.name == "enqueue":  # sent in a stream
                self.step(sent)
            return evalsha(sent)

        async def reading(between, sent):
            answer = await read(between, sent)
            self.step(sent)
            return answer

        connection._call, connection._evalsha, connection._read = called, sending, reading


async def main(url, crawl, feed, hold, step, batch=feeder.BATCH):
    feeder.BATCH = batch
    async with await Frontier.open(url, crawl=crawl, create=False) as frontier:
        if feed.startswith("redis:"):
            sources = [RedisFeed.open(feed.removeprefix("redis:"), frontier, hold=hold)]
        else:
            sources = [FileFeed(feed, frontier, ttl=hold)]
        feeding = Feeding(frontier, sources, ["page"])
        Bomb(step).arm(frontier._connection)
        running = asyncio.create_task(feeding.run())
        while not await sources[0].ended():  # noqa: ASYNC110 - another process may end it
            await asyncio.sleep(0.01)
        feeding.stop()
        await running
    print("survived")


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
