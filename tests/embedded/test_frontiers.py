"""Frontiers on an embedded server that is killed under them."""

from __future__ import annotations

import os
import signal

import psutil
import redis

from silkline import Admission, Frontier, Politeness, SyncFrontier


def kill_server(directory):
    """SIGKILL the Valkey of a directory once all is on its disk, and wait until it is gone."""
    with redis.Redis(unix_socket_path=os.fspath(directory / "valkey.sock")) as client:
        client.set("last", "write")
        client.execute_command("WAITAOF", 1, 0, 30_000)
    [server] = [
        process
        for process in psutil.process_iter(["name", "cwd"])
        if process.info["name"] == "valkey-server" and process.info["cwd"] == os.fspath(directory.resolve())
    ]
    server.send_signal(signal.SIGKILL)
    server.wait(30)


def test_a_killed_server_comes_back_with_the_next_call(tmp_path):
    with SyncFrontier.open(f"embedded:{tmp_path}", crawl="books", politeness=Politeness(delay=0)) as frontier:
        frontier.enqueue("https://a.example/")
        kill_server(tmp_path)
        assert frontier.enqueue(["https://a.example/", "https://b.example/"]) == [Admission.SEEN, Admission.ADDED]
        assert len(frontier.claim(5)) == 2


async def test_async_code_sees_it_come_back_too(tmp_path):
    async with await Frontier.open(f"embedded:{tmp_path}", crawl="books", politeness=Politeness(delay=0)) as frontier:
        kill_server(tmp_path)
        assert await frontier.enqueue("https://b.example/") == [Admission.ADDED]
        kill_server(tmp_path)
        assert (await frontier.admin.stats()).state == "open"
