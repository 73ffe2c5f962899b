"""``silkline dashboard`` as a process."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys

import pytest

from silkline import SyncFrontier
from tests.cli.processes import Running
from tests.dashboard.serving import TOKEN, Visitor


def started(process):
    process.wait_for("Ctrl-C stops it.")
    process.wait_for("/\n")  # on the other stream
    return Visitor(int(re.search(r"http://127\.0\.0\.1:(\d+)/", process.out)[1]))


def test_it_serves_until_it_is_interrupted(valkey, crawl, workplace):
    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        frontier.enqueue("https://a.example/")
    process = Running("dashboard", "--port", 0, "--redis", valkey.url, cwd=workplace)
    try:
        visitor = started(process)
        assert "Read-only" in process.err
        assert crawl in visitor.get("/crawls").words
        assert "server" not in visitor.get("/crawls").headers
        assert visitor.get("/", Host="evil.example").status == 421
        assert visitor.post(f"/crawls/{crawl}/pause", {}).status == 403
        process.process.send_signal(signal.SIGINT)
        assert process.end() in (0, 130)
    finally:
        process.close()


def test_it_warns_at_the_start_if_the_server_cannot_be_reached(workplace):
    process = Running("dashboard", "--port", 0, "--redis", "redis://127.0.0.1:1", cwd=workplace)
    try:
        started(process)
        process.wait_for("The dashboard keeps trying.")
        assert "Redis at redis://127.0.0.1:1 cannot be reached" in process.err
    finally:
        process.close()


INTERRUPTED = """
import signal, sys, weakref
from silkline.dashboard import app
from silkline.dashboard.server import listen, serve

class Gone: ...

def interrupt():
    one = Gone()
    sys.kept = weakref.ref(one, lambda _: signal.raise_signal(getattr(signal, sys.argv[2])))
    del one  # KeyboardInterrupt does not leave the callback of a weak reference

serve(app(sys.argv[1]), listen("127.0.0.1", 0), interrupt)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_comes_while_it_starts_is_not_lost(valkey, workplace, name):
    command = [sys.executable, "-c", INTERRUPTED, valkey.url, name]
    done = subprocess.run(command, cwd=workplace, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == -getattr(signal, name), done.stderr


def test_a_token_from_the_environment_or_a_file(valkey, workplace):
    (workplace / "token").write_text(TOKEN + "\n")
    for options, variables in ((("--token-file", "token"), {}), ((), {"SILKLINE_TOKEN": TOKEN})):
        process = Running("dashboard", "--port", 0, "--redis", valkey.url, *options, cwd=workplace, **variables)
        try:
            visitor = started(process)
            assert visitor.get("/").status == 303
            assert visitor.sign_in().status == 303
            assert TOKEN not in process.out + process.err
            process.process.terminate()
            process.end()
        finally:
            process.close()


def test_the_cookie_is_secure_where_a_proxy_that_is_believed_says_https(valkey, workplace):
    """Those on this machine are, which means 127.0.0.1; others only if they are named."""
    for options, believed in (((), ("127.0.0.1",)), (("--proxy", "127.0.0.2"), ("127.0.0.1", "127.0.0.2"))):
        process = Running(
            "dashboard", "--port", 0, "--redis", valkey.url, *options, cwd=workplace, SILKLINE_TOKEN=TOKEN
        )
        try:
            port = started(process).port
            for address in ("127.0.0.1", "127.0.0.2"):
                proxy = Visitor(port, address=address)
                for scheme in ("https", "http"):
                    assert proxy.post("/sign-in", {"token": TOKEN}, X_Forwarded_Proto=scheme).status == 303
                    assert ("Secure" in proxy.last_cookie) is (scheme == "https" and address in believed)
        finally:
            process.close()


def test_what_is_wrong_is_said(silkline, valkey, workplace):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = silkline("dashboard", "--port", port, "--redis", valkey.url)
    assert ran.code == 2
    assert "use --port to select another port" in ran.err
    assert "16 characters" in silkline("dashboard", "--redis", valkey.url, "--token", "short").err
    assert "cannot be read" in silkline("dashboard", "--redis", valkey.url, "--token-file", "nowhere").err
    assert "--proxy must be an address" in silkline("dashboard", "--redis", valkey.url, "--proxy", "proxy.example").err
    assert "has no data of an embedded server" in silkline("dashboard").err


def test_without_its_packages_it_says_which(valkey):
    program = (
        "import sys; sys.modules['uvicorn'] = None; from silkline.cli.main import run; "
        f"sys.exit(run(['dashboard', '--redis', {valkey.url!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    assert "silkline[dashboard]" in done.stderr
