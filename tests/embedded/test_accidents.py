"""Participants, supervisors and servers that are killed, frozen or come at the wrong moment."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from silkline.errors import StoreUnavailable
from silkline.frontier.embedded import server as embedded
from silkline.frontier.embedded import supervisor
from silkline.frontier.embedded.server import EmbeddedServer
from tests.embedded.processes import client_of, is_running, kill_supervisor, supervisor_of, wait_until_stopped


def test_killing_the_process_that_started_the_server_leaves_the_others_alone(home, participant):
    starter, other = participant(), participant()
    pid = starter.do("join")
    other.do("join")
    other.do("set page kept")

    starter.kill()

    assert other.do("ensure") == pid
    assert other.do("get page") == "kept"


def test_when_all_participants_were_killed_the_server_stops_and_the_data_stays(home, participant):
    crowd = [participant() for _ in range(3)]
    pids = {one.do("join") for one in crowd}
    crowd[0].do("set page kept")

    for one in crowd:
        one.kill()
    wait_until_stopped(home)

    assert not is_running(pids.pop())
    with EmbeddedServer.join(home) as server:
        assert client_of(server).get("page") == "kept"


def test_a_killed_supervisor_takes_its_server_along_and_the_next_to_join_gets_a_new_pair(home, participant):
    witness, newcomer = participant(), participant()
    pid = witness.do("join")
    witness.do("set page kept")

    kill_supervisor(home)

    assert newcomer.do("join") != pid
    assert newcomer.do("get page") == "kept"
    assert not is_running(pid)
    assert witness.do("get page") == "kept"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the server stays until the next supervisor comes")
def test_a_killed_supervisor_s_server_ends_also_when_nobody_comes(home, participant):
    pid = participant().do("join")

    kill_supervisor(home)
    wait_until_stopped(home)

    assert not is_running(pid)


def test_a_killed_supervisor_s_server_has_the_data_to_itself_until_it_has_ended(home, participant, monkeypatch):
    pid = int(participant().do("join"))
    os.kill(pid, signal.SIGSTOP)  # it cannot end as it should
    try:
        kill_supervisor(home)
        monkeypatch.setattr(embedded, "START_SECONDS", 0.1)
        with pytest.raises(StoreUnavailable, match="still running and does not stop"):
            EmbeddedServer.join(home)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until_stopped(home)
    assert not is_running(pid)


def test_a_participant_whose_supervisor_was_killed_brings_the_server_back(home, participant):
    witness = participant()
    pid = witness.do("join")
    witness.do("set page kept")

    kill_supervisor(home)

    assert witness.do("ensure") != pid
    assert witness.do("get page") == "kept"


def test_a_participant_whose_server_was_killed_brings_it_back(home, participant):
    witness = participant()
    pid = int(witness.do("join"))
    witness.do("set page kept")

    psutil.Process(pid).kill()
    wait_until_stopped(home)

    assert witness.do("ensure") != str(pid)
    assert witness.do("get page") == "kept"


def test_participants_that_lost_their_server_bring_back_one_together(home, participant):
    crowd = [participant() for _ in range(4)]
    pid = {one.do("join") for one in crowd}.pop()

    psutil.Process(int(pid)).kill()
    wait_until_stopped(home)
    for one in crowd:
        one.tell("ensure")

    assert len({one.answer() for one in crowd} - {pid}) == 1
    assert (home / "valkey.log").read_text().count("just started") == 2


def test_a_supervisor_that_is_asked_to_end_stops_its_server_first(home, participant):
    witness = participant()
    pid = witness.do("join")

    supervisor_of(home).terminate()
    wait_until_stopped(home)

    assert not is_running(pid)
    assert "ready to exit" in (home / "valkey.log").read_text()


def test_an_orphaned_server_is_stopped_before_a_new_one_touches_its_data(home):
    """Where the kernel does not end a server together with its supervisor, the next supervisor has to."""
    embedded.prepare(home)
    with orphan(home) as server:
        supervisor.wait_for(lambda: supervisor.replies(home / supervisor.SOCKET), 10)
        supervisor.ask(home / supervisor.SOCKET, b"SET page kept")

        with EmbeddedServer.join(home) as share:
            assert server.wait() == 0
            assert client_of(share).get("page") == "kept"


@contextmanager
def orphan(home: Path) -> Iterator[subprocess.Popen]:
    lock = supervisor.open_lock(home / supervisor.SERVER)
    fcntl.flock(lock, fcntl.LOCK_EX)
    command = [embedded.server_binary(), *supervisor.options(Path(supervisor.SOCKET))]
    with subprocess.Popen(command, cwd=home, pass_fds=(lock,), stdout=subprocess.DEVNULL) as server:
        os.close(lock)
        try:
            yield server
        finally:
            server.kill()


def test_whoever_comes_while_the_server_is_stopping_waits_and_gets_a_new_one(home, participant):
    last, newcomer = participant(), participant()
    pid = int(last.do("join"))
    last.do("set page kept")
    server = psutil.Process(pid)
    server.suspend()  # so that it takes as long to stop as we like

    last.do("leave")
    wait_until_closing(home)
    newcomer.tell("join")
    assert is_running(pid)
    server.resume()

    assert newcomer.answer() != str(pid)
    assert newcomer.do("get page") == "kept"
    assert not is_running(pid)


def wait_until_closing(home: Path) -> None:
    """Wait until the supervisor has found itself alone: from then on nobody can join."""
    lock = supervisor.open_lock(home / supervisor.MEMBERS)
    while supervisor.try_lock(lock, fcntl.LOCK_SH):
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(0.001)
    os.close(lock)


def test_coming_and_going_in_a_hurry_never_meets_a_stopping_server(home, participant):
    crowd = [participant() for _ in range(3)]

    for _ in range(8):
        for one in crowd:
            one.tell("join")
            one.tell("set page kept")
            one.tell("leave")
        for one in crowd:
            assert one.answer().isdigit()
            assert one.answer() == "stored"
            assert one.answer() == "left"


def test_a_starter_killed_at_any_moment_leaves_nothing_that_harms_the_next(home, participant):
    for delay in (0.0, 0.02, 0.04, 0.06, 0.1):
        starter = participant()
        starter.tell("join")
        time.sleep(delay)  # any moment will do, so there is no event to wait for
        starter.kill()

    with EmbeddedServer.join(home) as server:
        assert client_of(server).set("page", "kept")


def test_a_frozen_server_is_reported_and_not_replaced(home, participant, monkeypatch):
    witness = participant()
    pid = int(witness.do("join"))
    monkeypatch.setattr(embedded, "START_SECONDS", 0.1)

    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match=f"does not reply; to end it: kill {supervisor_of(home).pid}"):
            EmbeddedServer.join(home)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert witness.do("ensure") == str(pid)


def test_joining_gives_up_when_a_stopping_server_does_not_get_on(home, participant, monkeypatch):
    last = participant()
    pid = int(last.do("join"))
    monkeypatch.setattr(embedded, "START_SECONDS", 0.1)

    os.kill(pid, signal.SIGSTOP)
    try:
        last.do("leave")
        wait_until_closing(home)
        with pytest.raises(StoreUnavailable, match="starting or stopping"):
            EmbeddedServer.join(home)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_directory_deleted_and_made_again_gets_a_server_of_its_own(home, participant):
    old, new = participant(), participant()
    first = old.do("join")
    shutil.rmtree(home)

    second = new.do("join")
    old.do("leave")
    psutil.Process(int(first)).wait()

    assert second != first
    assert new.do("ensure") == second
