"""A process that joins an embedded server when told so, and does one thing a line until its input ends.

Run by the tests as ``python participant.py DIR``. Commands: ``join``, ``set KEY VALUE``, ``get KEY``, ``ensure``, ``leave``,
``fork`` (the parent leaves and ends, the child goes on), ``spawn`` (start another program, which waits for our input to end, and end).
"""

from __future__ import annotations

import os
import subprocess
import sys

import redis

from silkline.frontier.embedded.server import EmbeddedServer


class Participant:
    def __init__(self, directory: str) -> None:
        self.directory = directory

    def join(self) -> int:
        self.server = EmbeddedServer.join(self.directory)
        return self._client().info("server")["process_id"]

    def ensure(self) -> int:
        self.server.ensure()
        return self._client().info("server")["process_id"]

    def set(self, key: str, value: str) -> str:
        self._client().set(key, value)
        return "stored"

    def get(self, key: str) -> str:
        return self._client().get(key)

    def leave(self) -> str:
        self.server.leave()
        return "left"

    def fork(self) -> str:
        if os.fork():
            self.leave()
            os._exit(0)
        return str(os.getpid())

    def spawn(self) -> None:
        program = [sys.executable, "-c", "import sys; print('spawned', flush=True); sys.stdin.read()"]
        subprocess.Popen(program, close_fds=False)
        os._exit(0)

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self.server.url, decode_responses=True)


if __name__ == "__main__":
    participant = Participant(sys.argv[1])
    print("here", flush=True)
    # Not "for line in sys.stdin": a forked child would share what that has read ahead.
    while line := sys.stdin.readline():
        verb, *words = line.split()
        print(getattr(participant, verb)(*words), flush=True)
