"""Real Scrapy processes, of the newest version, of the oldest we promise or of one between them, started by their zygotes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SHOP_PROJECT = HERE / "project"
PYTHONS = {"newest": sys.executable, "oldest": str(ROOT / ".venv-scrapy-2.13" / "bin" / "python")}
BETWEEN = {
    version: PYTHONS["oldest" if version in ("2.14", "2.15") else "newest"]  # these two refuse the newest Twisted
    for version in re.findall(r"^scrapy==(\d+\.\d+)", (HERE / "between.lock").read_text(), re.MULTILINE)
}
"""The minor versions of Scrapy between them: each is in a directory of its own, and uses the other packages of one of them."""
SCRAPY_REDIS = "scrapy-redis"
"""The oldest Scrapy with scrapy-redis, and without Silkline."""
BOTH = "both"
"""The oldest Scrapy with Silkline, and scrapy-redis beside it, as while a project migrates."""
PATHS = {
    SCRAPY_REDIS: (ROOT / ".venv-scrapy-redis", ROOT),
    BOTH: (ROOT / ".venv-scrapy-redis", ROOT / "src", ROOT),
    **{version: (ROOT / f".venv-scrapy-{version}", ROOT / "src", ROOT) for version in BETWEEN},
}


def python_of(version):
    return (PYTHONS | BETWEEN).get(version, PYTHONS["oldest"])


class Zygote:
    """See zygote.py."""

    def __init__(self, version):
        paths = os.pathsep.join(map(str, PATHS.get(version, (ROOT / "src", ROOT))))
        environment = {**os.environ, "PYTHONPATH": paths, "SCRAPY_SETTINGS_MODULE": ""}
        del environment["SCRAPY_SETTINGS_MODULE"]
        self._process = subprocess.Popen(
            [python_of(version), str(HERE / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self._process.stdout.readline() == "ready\n"

    def ask(self, **order):
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Scrapy:
    """One run of Scrapy."""

    def __init__(self, zygote, folder, log, command, environment):
        self._zygote = zygote
        self._log = Path(log)
        self._code = None
        self.pid = zygote.ask(folder=str(folder), log=str(log), command=command, environment=environment)

    def wait(self):
        """Until it ends; answers its exit code."""
        if self._code is None:
            self._code = self._zygote.ask(wait=self.pid)
        return self._code

    def kill(self):
        """As a power cut does it."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def interrupt(self):
        """Ctrl-C."""
        os.kill(self.pid, signal.SIGINT)

    @property
    def running(self):
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    @property
    def log(self):
        return self._log.read_text() if self._log.exists() else ""

    def said(self, text, seconds=100):
        """Wait until the log has *text*."""
        until(lambda: text in self.log or not self.running, seconds)
        assert text in self.log, self.log[-3000:]

    @property
    def stats(self):
        """What Scrapy dumped at its end."""
        text = self.log.rpartition("Dumping Scrapy stats:\n")[2]
        block = text[: text.index("}\n") + 1]
        return eval(block, {"datetime": __import__("datetime")})


def until(true, seconds=100):
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)
    return found


def lines(path):
    """The JSON lines of a file."""
    path = Path(path)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
