"""Standard output: whole lines, and a reader that leaves."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.sinks import writing


def test_lines_of_several_processes_stay_whole_in_a_pipe():
    settings = {"out": "-?key=true", "writers": 3, "batches": 6, "size": 150, "columns": 3}
    done = subprocess.run(
        [sys.executable, writing.__file__, "together", json.dumps(settings)], capture_output=True, text=True, check=True
    )
    *lines, acknowledged = done.stdout.splitlines()
    assert json.loads(acknowledged) == [5] * 3
    assert len({json.loads(line)["_key"] for line in lines}) == len(lines) == 3 * 6 * 150


def test_a_reader_that_leaves_ends_the_sink():
    program = (
        "import asyncio, sys; from silkline.sinks import open_sink, record_of\n"
        "async def main():\n"
        "    sink = open_sink('-')\n"
        "    while True: await sink.write([record_of('k', 'u', {'a': 1})])\n"
        "asyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b'{"a":1}\n'
        process.stdout.close()
        assert b"SilklineError: standard output was closed by its reader" in process.stderr.read()
