"""Directories that are in the way, too deep, damaged or left over from before."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from silkline.errors import ConfigError, StoreUnavailable
from silkline.frontier.embedded import server as embedded
from silkline.frontier.embedded.server import EmbeddedServer
from tests.embedded.processes import client_of, kill_supervisor, wait_until_stopped


def test_a_file_is_not_a_directory(home):
    home.write_text("something else")

    with pytest.raises(ConfigError, match="not a directory"):
        EmbeddedServer.join(home)


def test_a_directory_below_a_file_cannot_be_made(home):
    home.write_text("something else")

    with pytest.raises(ConfigError, match="Not a directory"):
        EmbeddedServer.join(home / "below")


def test_a_directory_that_cannot_be_made_is_a_configuration_error():
    with pytest.raises(ConfigError, match="cannot be used"):
        EmbeddedServer.join("/proc/silkline")


@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_a_directory_in_which_one_may_not_write_is_a_configuration_error(home, mode):
    home.parent.chmod(0o755)
    home.mkdir()
    home.chmod(mode)

    assert "is not writable for this user" in as_nobody(lambda: EmbeddedServer.join(home))


def test_lock_files_of_another_user_are_a_configuration_error(home):
    EmbeddedServer.join(home).leave()
    wait_until_stopped(home)
    home.parent.chmod(0o755)
    os.chown(home, 65534 if os.geteuid() == 0 else -1, -1)
    (home / "members.lock").chmod(0o000)

    assert "cannot be locked: Permission denied" in as_nobody(lambda: EmbeddedServer.join(home))


def as_nobody(action) -> str:
    """Run *action* without root's rights, and return the configuration error it raised."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(ConfigError) as caught:
            action()
    finally:
        if root:
            os.seteuid(0)
    return str(caught.value)


def test_a_socket_left_over_from_a_crash_is_no_obstacle(home):
    home.mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(home / "valkey.sock"))

    with EmbeddedServer.join(home) as server:
        assert client_of(server).ping()


def test_a_path_too_long_for_a_socket_gets_one_elsewhere(deep, participant):
    with EmbeddedServer.join(deep) as server:
        client_of(server).set("page", "kept")
        elsewhere = server.socket.parent
        other = participant(deep)
        other.do("join")

        assert deep not in server.socket.parents
        assert elsewhere.stat().st_mode & 0o777 == 0o700
        assert other.do("get page") == "kept"
        other.do("leave")
    wait_until_stopped(deep)

    assert not elsewhere.exists()
    assert not (deep / "socket.path").exists()


def test_a_server_with_its_socket_elsewhere_comes_back_under_the_same_address(deep):
    with EmbeddedServer.join(deep) as server:
        url = server.url
        kill_supervisor(deep)
        wait_until_stopped(deep)

        server.ensure()

        assert server.url == url
        assert client_of(server).ping()


def test_a_copy_of_a_deep_directory_does_not_talk_to_the_original(deep):
    copy = deep.with_name(deep.name + "-copy")
    with EmbeddedServer.join(deep) as server:
        shutil.copytree(deep, copy, ignore=shutil.ignore_patterns("valkey.pid"))
        with EmbeddedServer.join(copy) as other:
            assert other.socket != server.socket
            client_of(other).set("page", "only here")
            assert client_of(server).get("page") is None
    wait_until_stopped(copy)


@pytest.fixture
def deep(home):
    """A directory whose path no unix socket can have."""
    path = home / ("deep" * 20) / ("down" * 20)
    yield path
    wait_until_stopped(path)


def test_a_file_cut_off_in_the_middle_of_a_write_is_read_up_to_there(filled):
    increment(filled).write_bytes(increment(filled).read_bytes()[:-5])

    with EmbeddedServer.join(filled) as server:
        assert client_of(server).get("first") == "1"
        assert client_of(server).get("second") is None


def test_damaged_data_is_reported_with_the_end_of_the_log_and_a_remedy_that_works(filled):
    text = increment(filled).read_bytes()
    increment(filled).write_bytes(text.replace(b"$6\r\nsecond", b"?6\r\nsecond"))

    with pytest.raises(ConfigError, match="Bad file format") as caught:
        EmbeddedServer.join(filled)

    assert "move" in str(caught.value)
    remedy = re.search(r"bash -c .*", str(caught.value))[0]
    subprocess.run(remedy, shell=True, input=b"y\n", check=True, stdout=subprocess.DEVNULL)
    with EmbeddedServer.join(filled) as server:
        assert client_of(server).get("first") == "1"


def test_a_server_that_refuses_to_start_for_another_reason_shows_its_log(filled):
    (filled / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")

    with pytest.raises(ConfigError, match=r"refused to start(.|\n)*manifest(.|\n)*start empty"):
        EmbeddedServer.join(filled)


@pytest.fixture
def filled(home):
    """A directory whose server has stored ``first`` and then ``second``, and has stopped."""
    with EmbeddedServer.join(home) as server:
        client = client_of(server)
        client.set("first", "1")
        client.set("second", "2")
    wait_until_stopped(home)
    return home


def increment(home: Path) -> Path:
    return home / "appendonlydir" / "appendonly.aof.1.incr.aof"


def test_without_the_bundled_server_the_error_says_what_to_do_instead(home, monkeypatch):
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)

    with pytest.raises(ConfigError, match="redis://host:port"):
        EmbeddedServer.join(home)


def test_a_binary_that_cannot_run_here_is_a_configuration_error(home, monkeypatch):
    home.mkdir()
    binary = home / "valkey-server"
    binary.write_bytes(b"\x7fELF of another machine")
    binary.chmod(0o700)
    monkeypatch.setattr(embedded, "server_binary", lambda: binary)

    with pytest.raises(ConfigError, match="Exec format error"):
        EmbeddedServer.join(home)


def test_a_directory_of_another_user_is_refused_and_nothing_in_it_is_touched(home, tmp_path):
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    home.mkdir(mode=0o777)
    (home / "keeper.lock").symlink_to(victim)
    os.chown(home, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to another user"):
        EmbeddedServer.join(home)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("mode", [0o777, 0o707])
def test_a_directory_that_others_can_write_is_refused(home, mode):
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(ConfigError, match=f"chmod 700 {home}"):
        EmbeddedServer.join(home)


@pytest.mark.parametrize("name", ["members.lock", "start.lock", "keeper.lock", "server.lock", "valkey.log"])
def test_no_file_is_opened_through_a_link(home, tmp_path, name):
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    home.mkdir(mode=0o700)
    (home / name).symlink_to(victim)
    with pytest.raises((ConfigError, StoreUnavailable)):
        EmbeddedServer.join(home)
    assert victim.read_text() == "precious"
