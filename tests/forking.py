"""Starts Python programs as processes of their own, quickly: they are forked from a process that has imported what they need.

Importing Silkline takes longer than what many programs of the tests do. A program finds everything as if it had been started by a
shell: its directory, environment, arguments, input and output. It ends as every interpreter does.
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from contextlib import suppress
from pathlib import Path

LONGEST = 1 << 17
"""Bytes of an order."""


class Forker:
    """Imports *modules* once, and starts programs. *flags* are those of Python."""

    def __init__(self, *modules, flags=(), environment=None):
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environment = dict(environment or os.environ)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, *flags, __file__, str(theirs.fileno()), *modules],
            stdin=subprocess.DEVNULL,
            env=self._environment,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()

    def start(self, *program, cwd, files, environment=None):
        """Start a program: a file and its arguments. *files* are the descriptors of its input, output and errors.

        On a terminal, it begins a session.
        """
        order = {"program": [*map(str, program)], "cwd": str(cwd), "environment": environment or self._environment}
        return Forked(self, self._ask(order, files))

    def run(self, *program, cwd, environment=None, given=b"", timeout=100):
        """Run a program to its end. Returns what `subprocess.run` returns."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            stdin.write(given)
            stdin.seek(0)
            files = [file.fileno() for file in (stdin, stdout, stderr)]
            process = self.start(*program, cwd=cwd, environment=environment, files=files)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            out, err = (file.seek(0) or file.read() for file in (stdout, stderr))
        return subprocess.CompletedProcess(program, code, out, err)

    def code_of(self, pid):
        """The exit code of a process that has ended, as of `subprocess.Popen`."""
        return self._ask({"ended": pid})

    def _ask(self, order, files=()):
        with self._lock:
            socket.send_fds(self._orders, [json.dumps(order).encode()], files)
            return int(self._orders.recv(LONGEST))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._orders.close()
        self._process.wait()


class Forked:
    """A process that was forked, with the methods of `subprocess.Popen`."""

    def __init__(self, forker, pid):
        self.pid = pid
        self.returncode = None
        self._forker = forker
        self._descriptor = os.pidfd_open(pid)

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = self._forker.code_of(self.pid)
            os.close(self._descriptor)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def fork_for_each(orders):
    """Return the order in the process that was forked for it, and None at the end."""
    while True:
        text, files, _, _ = socket.recv_fds(orders, LONGEST, 3)
        if not text:
            return None
        order = json.loads(text)
        if "ended" in order:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["ended"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                orders.close()
                return order | {"files": files}
            for file in files:
                os.close(file)
        orders.send(str(answer).encode())


def become(order):
    """Take on what a process of its own would have; return its main module and the source of that."""
    for number, file in enumerate(order["files"]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    if os.isatty(1):
        os.setsid()
        sys.stdout.reconfigure(line_buffering=True)
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    sys.argv = order["program"]
    main = types.ModuleType("__main__")
    main.__file__ = sys.argv[0]
    sys.modules["__main__"] = main
    sys.path[0] = str(Path(main.__file__).resolve().parent)
    return main, compile(Path(main.__file__).read_bytes(), main.__file__, "exec")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        for module in sys.argv[2:]:
            importlib.import_module(module)
        order = fork_for_each(orders)
    if order:
        main, code = become(order)
        exec(code, main.__dict__)
