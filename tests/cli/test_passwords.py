"""A server's password is never printed, however its address holds it."""

from __future__ import annotations

import signal
from urllib.parse import quote

import pytest

from silkline.cli.main import run as run_command
from tests.cli.processes import Running
from tests.cli.terminal import Terminal
from tests.servers import Server

SECRET = "pa@ss-w0rd"
TAIL = "w0rd"


@pytest.fixture(scope="module")
def guarded():
    """A server that wants a password."""
    server = Server(tcp=True, requirepass=SECRET).start()
    yield server
    server.remove()


@pytest.fixture(params=["login", "option", "socket"])
def url(request, guarded):
    return {
        "login": f"redis://:{SECRET}@127.0.0.1:{guarded.port}",
        "option": f"redis://127.0.0.1:{guarded.port}?password={SECRET}",
        "socket": f"unix://{guarded.socket}?password={quote(SECRET)}",
    }[request.param]


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("status", "--json"),
        ("doctor",),
        ("doctor", "--json"),
        ("top", "--once"),
        ("top", "--json"),
        ("bench", "--urls", "1000", "--json"),
    ],
    ids=" ".join,
)
def test_commands_that_name_their_server_do_so_without_it(command, url, capsys, monkeypatch, workplace):
    monkeypatch.chdir(workplace)
    code = run_command([*command, "--redis", url])
    said = "".join(capsys.readouterr())
    assert code in (0, 1), said  # a doctor finds something on every server
    assert TAIL not in said
    if command[0] != "doctor" and "top" not in command:
        assert "***" in said


def test_top_and_the_dashboard_say_whom_they_show_without_it(url, workplace):
    screen = Terminal("top", "--every", "0.2", "--redis", url, cwd=workplace)
    try:
        screen.wait_for("***")
        screen.type(b"q")
        assert screen.end() == 0
    finally:
        screen.close()
    assert TAIL not in screen.text
    process = Running("dashboard", "--port", 0, "--redis", url, cwd=workplace)
    try:
        process.wait_for("Dashboard of ")
        process.wait_for("***")
        process.process.send_signal(signal.SIGINT)
        process.end()
    finally:
        process.close()
    assert TAIL not in process.out + process.err


def test_a_wrong_one_is_not_repeated(guarded, silkline):
    answer = silkline("status", "--redis", f"redis://:wr@ng-w0rd@127.0.0.1:{guarded.port}")
    assert answer.code in (2, 3)
    assert answer.err.startswith("error: ")
    assert TAIL not in answer.err + answer.out
