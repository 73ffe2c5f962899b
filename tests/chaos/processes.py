"""The processes of these tests, seen from outside; see client.py and crawler.py."""

from __future__ import annotations

import json
import os
import signal
from functools import cache
from pathlib import Path

from tests.forking import Forker

HERE = Path(__file__).parent


@cache
def forker():
    """It ends with this process, because its orders do."""
    return Forker("silkline.frontier.sync", "silkline.frontier.frontier")


class Process:
    program = ""

    def __init__(self, **settings):
        (stdin, given), (said, stdout) = os.pipe(), os.pipe()
        program = (HERE / self.program, json.dumps(settings))
        self.process = forker().start(*program, cwd=Path.cwd(), files=(stdin, stdout, 2))
        os.close(stdin)
        os.close(stdout)
        self.process.stdin = os.fdopen(given, "w", buffering=1)
        self.process.stdout = os.fdopen(said)

    @property
    def alive(self):
        return self.process.poll() is None

    def read(self):
        return self.process.stdout.readline()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        if self.alive:
            self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


class Client(Process):
    """Does one thing a line."""

    program = "client.py"

    def ready(self):
        assert json.loads(self.read()) == "here"
        return self

    def tell(self, verb, **words):
        self.process.stdin.write(json.dumps({"do": verb, **words}) + "\n")

    def do(self, verb, **words):
        """The answer; None when it died over it."""
        self.tell(verb, **words)
        line = self.read()
        return json.loads(line) if line else None


class Crawler(Process):
    """Works until nothing is left."""

    program = "crawler.py"
