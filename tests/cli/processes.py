"""The command as a process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

COMMAND = Path(sys.executable).with_name("silkline")


def environment(**changes):
    """As on a plain terminal, whatever this one has set."""
    unwanted = ("SILKLINE_REDIS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES")
    return {name: value for name, value in os.environ.items() if name not in unwanted} | changes


class Running:
    """The command as a process that goes on; what it says is gathered meanwhile."""

    def __init__(self, *arguments, cwd, **variables):
        self.out, self.err = "", ""
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment(PYTHONUNBUFFERED="1", **variables),
        )
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in ("out", "err")]
        for reader in self._readers:
            reader.start()

    def _read(self, name):
        stream = self.process.stdout if name == "out" else self.process.stderr
        while data := os.read(stream.fileno(), 65536):
            with self._changed:
                setattr(self, name, getattr(self, name) + data.decode(errors="replace"))
                self._changed.notify_all()

    def wait_for(self, words, seconds=100):
        """Return when it has said the words."""
        with self._changed:
            assert self._changed.wait_for(lambda: words in self.err or words in self.out, seconds), self.out + self.err

    def end(self, seconds=100):
        """Wait for its end; answers its exit code."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join()
        assert "Traceback" not in self.err, self.err
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
