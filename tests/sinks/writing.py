"""Processes that write to a sink, to be killed, counted and cut short.

Started as a program with settings as JSON. It forks its writers, so that they start within a millisecond:

- ``killed``: one after the other, each killed at a random moment; each goes on where the one before was acknowledged.
- ``together``: several at once, until all have written all.

It prints the number of the last batch that was acknowledged, per writer.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from silkline.sinks import open_sink, record_of, sink


def batch_of(writer, number, size, columns):
    """Keys tell writer, batch and place; the text is long, so that a write can be cut in the middle."""
    rng = random.Random(f"{writer}/{number}")
    return [
        record_of(
            f"{writer}-{number}-{place}",
            f"https://site.example/{writer}/{number}",
            {"n": number, "text": rng.choice(["x", '"\n', "é"]) * rng.randrange(2000), f"c{number % columns}": place},
        )
        for place in range(size)
    ]


async def write(settings, writer, first, acknowledge):
    sink = open_sink(settings["out"], redis=settings.get("redis"))
    for number in range(first, settings["batches"]):
        await sink.write(batch_of(writer, number, settings["size"], settings["columns"]))
        acknowledge(number)
        if settings.get("finish_every") and number % settings["finish_every"] == 0:
            await sink.finish()
    await sink.close()


def start(settings, writer, first):
    """Fork a writer; answers its process id and a pipe of acknowledgements."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        asyncio.run(write(settings, writer, first, lambda number: os.write(writing, b"%d\n" % number)))
        code = 0
    except BaseException:  # noqa: BLE001 - a fork of ours must end here
        traceback.print_exc()
    finally:
        os._exit(code)


def wait_for(pipe, most):
    """Read acknowledgements until there are so many, or the writer is gone."""
    text = b""
    while text.count(b"\n") < most and (more := os.read(pipe, 4096)):
        text += more
    return text


def last_of(pipe, text, before):
    with os.fdopen(pipe, "rb") as rest:
        numbers = [int(line) for line in (text + rest.read()).split()]
    return numbers[-1] if numbers else before


def killed(settings):
    rng = random.Random(settings["seed"])
    last = -1
    for turn in range(settings["rounds"]):
        child, pipe = start(settings, "w", last + 1)
        text = wait_for(pipe, turn % 3)
        time.sleep(rng.uniform(0, settings["longest"]))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        last = last_of(pipe, text, last)
    return [last]


def together(settings):
    children = [start(settings, f"w{writer}", 0) for writer in range(settings["writers"])]
    codes = [os.waitpid(child, 0)[1] for child, _ in children]
    assert codes == [0] * len(codes)
    return [last_of(pipe, b"", -1) for _, pipe in children]


KINDS = sorted({f"silkline.sinks.{kind}" for kind in sink._MODULES.values()})
"""What the program imports first, so that its writers need not."""


def run(forker, how, **settings):
    """Start this program, and wait for what it says."""
    done = forker.run(__file__, how, json.dumps(settings), cwd=Path.cwd())
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


if __name__ == "__main__":
    for kind in KINDS:
        importlib.import_module(kind)
    print(json.dumps({"killed": killed, "together": together}[sys.argv[1]](json.loads(sys.argv[2]))))
