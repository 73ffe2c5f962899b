"""A terminal for a process: what it prints there, as it comes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time

from tests.cli.processes import COMMAND, environment

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Runs the command with stdin, stdout and stderr on a pseudo-terminal, of 100 columns unless told otherwise.

    With a *forker*, it starts quickly.
    """

    def __init__(self, *arguments, cwd, forker=None, columns=100, lines=40, **variables):
        self._master, slave = pty.openpty()
        self.text = ""
        command, files = [COMMAND, *map(str, arguments)], (slave, slave, slave)
        env = environment(TERM="xterm-256color", COLUMNS=str(columns), LINES=str(lines), **variables)
        if forker:
            self.process = forker.start(*command, cwd=cwd, environment=env, files=files)
        else:
            stdin, stdout, stderr = files
            self.process = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True
            )
        os.close(slave)

    def wait_for(self, words, seconds=100):
        """Read until the words have been printed."""
        deadline = time.monotonic() + seconds
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self._read(), self.text

    def frame_with(self, words, seconds=100):
        """Read until a whole screen with the words has been printed; answers its lines without colors."""
        deadline = time.monotonic() + seconds
        while not (found := [frame for frame in self.text.split("\x1b[H")[1:-1] if words in frame]):
            assert time.monotonic() < deadline, self.text
            assert self._read(), self.text
        return [CONTROL.sub("", line) for line in found[-1].replace("\r", "").split("\n")]

    def _read(self):
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def type(self, keys):
        os.write(self._master, keys)

    def end(self, seconds=100):
        """Read until the process ends; answers its exit code."""
        while self._read():
            pass
        return self.process.wait(seconds)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
