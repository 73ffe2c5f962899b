"""When nothing is left to do, and when it only seems so."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("scrapy")

from silkline.runtime.settling import Retrier
from silkline.scrapy.bridge import idle
from silkline.scrapy.bridge.idle import IdleDetector


class Process:
    """What the detector reads of this process, and a frontier that replies as the test says."""

    def __init__(self):
        self.busy, self.actions, self.done = False, 0, True
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.over = asyncio.Event()
        self.idle_detector = IdleDetector(Retrier(), lambda: self.busy, lambda: self.actions, self.over.set, idle=0.0)

    async def finished(self):
        done = self.done
        self.asked.set()
        await self.may_answer.wait()
        return done


@pytest.fixture
async def process():
    process = Process()
    watching = asyncio.create_task(process.idle_detector.run(process))
    yield process
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_an_empty_crawl_is_finished(process):
    await process.over.wait()
    assert process.idle_detector.finished


async def test_what_was_just_stored_is_not_finished_though_nobody_is_busy_with_it_yet(process):
    """As at the start: the crawl was empty, the first request is stored, and it is not claimed yet."""
    await process.over.wait()
    process.busy, process.actions = True, 1
    process.busy, process.done = False, False
    assert not process.idle_detector.finished
    assert process.idle_detector.idle_for == 0.0


async def test_an_answer_from_before_a_deed_says_nothing():
    process = Process()
    process.may_answer.clear()
    watching = asyncio.create_task(process.idle_detector.run(process))
    await process.asked.wait()  # the frontier has answered that nothing is left; we do not know it yet
    process.actions, process.done = 1, False
    process.asked.clear()
    process.may_answer.set()
    process.idle_detector.look()
    await process.asked.wait()
    assert not process.over.is_set()
    assert not process.idle_detector.finished
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_what_was_known_does_not_hold_while_we_look_again(process, monkeypatch):
    monkeypatch.setattr(idle, "LOOK_EVERY", 0.01)  # it looks by itself, without being told that something was done
    await process.over.wait()
    process.may_answer.clear()
    process.actions, process.done = 1, False
    process.asked.clear()
    await process.asked.wait()
    assert not process.idle_detector.finished
    process.may_answer.set()


async def test_once_it_is_done_it_is_finished_again(process):
    await process.over.wait()
    process.actions = 1
    process.over.clear()
    process.idle_detector.look()
    await process.over.wait()
    assert process.idle_detector.finished


async def test_scrapy_is_woken_until_it_says_that_the_spider_is_idle(process, monkeypatch):
    monkeypatch.setattr(idle, "LOOK_EVERY", 0.01)
    for _ in range(3):
        await process.over.wait()  # Scrapy may have been busy with something else
        process.over.clear()
    process.idle_detector.note_signal()
    for _ in range(5):
        process.asked.clear()
        await process.asked.wait()
    assert not process.over.is_set()
    assert process.idle_detector.finished
    process.actions = 1
    process.idle_detector.look()
    await process.over.wait()  # finished once more
