"""The processes of these tests, seen from outside; see client.py and crawler.py."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


class Process:
    program = ""

    def __init__(self, **settings):
        self.process = subprocess.Popen(
            [sys.executable, HERE / self.program, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

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
