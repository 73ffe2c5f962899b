"""Who starts the server, who shares it, and when it stops."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from silkline.errors import StoreUnavailable
from silkline.frontier.embedded.server import EmbeddedServer
from tests.embedded.processes import client_of, is_running, wait_until_stopped


def test_the_first_to_join_finds_a_running_server(home):
    with EmbeddedServer.join(home) as server:
        assert client_of(server).ping()
        assert server.socket == home / "valkey.sock"
        assert server.url == f"unix://{home}/valkey.sock"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("save", ""),
        ("maxmemory-policy", "noeviction"),
        ("list-compress-depth", "1"),
        ("loglevel", "notice"),
        ("port", "0"),
        ("protected-mode", "yes"),
        ("unixsocketperm", "700"),
    ],
)
def test_the_server_is_set_up_to_keep_what_it_is_given(settings, name, value):
    assert settings[name] == value


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with EmbeddedServer.join(home) as server:
        settings = client_of(server).config_get()
    wait_until_stopped(home)
    return settings


@pytest.mark.parametrize("own", [None, "glibc.malloc.mxfast=64"])
def test_the_server_s_allocator_is_ordered_to_keep_more_at_hand_unless_the_user_has_set_it(home, monkeypatch, own):
    if own:
        monkeypatch.setenv("GLIBC_TUNABLES", own)
    else:
        monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    with EmbeddedServer.join(home) as server:
        pid = client_of(server).info("server")["process_id"]
        assert psutil.Process(pid).environ()["GLIBC_TUNABLES"] == (own or "glibc.malloc.tcache_count=1024")


def test_only_its_owner_can_reach_the_server_and_read_its_data(home):
    with EmbeddedServer.join(home) as server:
        assert server.socket.stat().st_mode & 0o077 == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in (home / "appendonlydir").iterdir())


def test_a_new_directory_stays_out_of_version_control(home):
    EmbeddedServer.join(home).leave()

    assert (home / ".gitignore").read_text() == "*\n"


def test_a_second_process_joins_the_running_server(home, participant):
    first, second = participant(), participant()

    pid = first.do("join")
    first.do("set greeting hello")

    assert second.do("join") == pid
    assert second.do("get greeting") == "hello"


def test_processes_that_come_at_the_same_instant_start_one_server(home, participant):
    crowd = [participant() for _ in range(6)]

    for one in crowd:
        one.tell("join")

    assert len({one.answer() for one in crowd}) == 1
    assert (home / "valkey.log").read_text().count("just started") == 1


def test_the_server_stops_when_the_last_one_leaves_and_the_data_stays(home, participant):
    first, second = participant(), participant()
    pid = first.do("join")
    second.do("join")
    first.do("set page kept")

    first.do("leave")
    assert second.do("get page") == "kept"
    second.do("leave")
    wait_until_stopped(home)

    assert not is_running(pid)
    assert first.do("join") != pid
    assert first.do("get page") == "kept"


def test_several_shares_of_one_process_are_counted(home):
    first, second = EmbeddedServer.join(home), EmbeddedServer.join(str(home))

    first.leave()
    first.leave()

    assert client_of(second).ping()
    second.leave()
    wait_until_stopped(home)
    assert not second.socket.exists()


def test_a_share_that_was_given_back_is_of_no_use(home):
    server = EmbeddedServer.join(home)
    server.leave()

    with pytest.raises(StoreUnavailable, match="join it again"):
        server.ensure()


def test_a_symbolic_link_leads_to_the_same_server(home):
    link = home.parent / "link"
    with EmbeddedServer.join(home) as server:
        link.symlink_to(home)
        with EmbeddedServer.join(link) as other:
            assert other.url == server.url


def test_a_relative_directory_means_the_working_directory_of_the_caller(home, monkeypatch):
    monkeypatch.chdir(home.parent)

    with EmbeddedServer.join("home") as server:
        assert server.socket == home / "valkey.sock"


def test_a_directory_with_spaces_and_quotes_in_its_name_is_fine(home, participant):
    odd = home.parent / 'it\'s an "odd" näme %20'
    with EmbeddedServer.join(odd) as server:
        assert client_of(server).ping()
    wait_until_stopped(odd)


def test_interrupting_one_participant_does_not_stop_the_server(home, participant):
    starter, other = participant(), participant()
    pid = starter.do("join")
    other.do("join")

    os.killpg(starter.process.pid, signal.SIGINT)
    starter.process.wait()

    assert other.do("ensure") == pid


def test_a_forked_child_keeps_the_server_until_it_ends_too(home, participant):
    parent = participant()
    pid = parent.do("join")
    parent.do("set page kept")

    child = parent.do("fork")
    parent.process.wait()

    assert is_running(child)
    newcomer = participant()
    assert newcomer.do("join") == pid
    assert parent.do("get page") == "kept"
    newcomer.do("leave")
    parent.process.stdin.close()
    wait_until_stopped(home)
    assert not is_running(pid)


def test_a_program_started_by_a_participant_does_not_keep_the_server(home, participant):
    starter = participant()
    pid = starter.do("join")

    assert starter.do("spawn") == "spawned"
    wait_until_stopped(home)

    assert not is_running(pid)
