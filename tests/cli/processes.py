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
    """The command as a process that goes on; what it says is gathered meanwhile. With a *forker*, it starts quickly."""

    def __init__(self, *arguments, cwd, forker=None, **variables):
        self.out, self.err = "", ""
        self._changed = threading.Condition()
        command, env = [COMMAND, *map(str, arguments)], environment(PYTHONUNBUFFERED="1", **variables)
        (said, stdout), (complained, stderr) = os.pipe(), os.pipe()
        self._files = {"out": said, "err": complained}
        with Path(os.devnull).open() as stdin:
            files = (stdin.fileno(), stdout, stderr)
            if forker:
                self.process = forker.start(*command, cwd=cwd, environment=env, files=files)
            else:
                self.process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env)
        os.close(stdout)
        os.close(stderr)
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in ("out", "err")]
        for reader in self._readers:
            reader.start()

    def _read(self, name):
        while data := os.read(self._files[name], 65536):
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
        while self._files:
            os.close(self._files.popitem()[1])
