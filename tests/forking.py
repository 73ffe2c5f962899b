"""Starts Python programs as processes of their own, quickly: they are forked from a process that has imported what they need.

Importing Silkline takes longer than what many programs of the tests do. A program finds everything as if it had been started by a
shell: its directory, environment, arguments, input and output. It ends as every interpreter does.
"""

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path

WIDTH = 12
"""Bytes of a reply."""


class Forker:
    """Imports *modules* once, and runs programs one after the other. *flags* are those of Python."""

    def __init__(self, *modules, flags=(), environment=None):
        orders, self._orders = os.pipe()
        self._replies, replies = os.pipe()
        self._environment = dict(environment or os.environ)
        self._process = subprocess.Popen(
            [sys.executable, *flags, __file__, str(orders), str(replies), *modules],
            stdin=subprocess.DEVNULL,
            env=self._environment,
            pass_fds=(orders, replies),
        )
        os.close(orders)
        os.close(replies)

    def run(self, *program, cwd, environment=None, given=b"", timeout=100):
        """Run a program to its end: a file and its arguments. Returns what `subprocess.run` returns."""
        with tempfile.TemporaryDirectory() as folder:
            files = {name: str(Path(folder) / name) for name in ("stdin", "stdout", "stderr")}
            Path(files["stdin"]).write_bytes(given)
            self._tell(
                program=[*map(str, program)], cwd=str(cwd), environment=environment or self._environment, **files
            )
            pid = self._hear(None)
            try:
                code = self._hear(timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._hear(None)
                raise
            out, err = (Path(files[name]).read_bytes() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(program, code, out, err)

    def _tell(self, **order):
        os.write(self._orders, json.dumps(order).encode() + b"\n")

    def _hear(self, timeout):
        if not select.select([self._replies], [], [], timeout)[0]:
            raise TimeoutError("the program has not ended in time")
        return int(os.read(self._replies, WIDTH))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._orders)
        self._process.wait()
        os.close(self._replies)


def fork_for_each(orders, replies):
    """Return the order in the process that was forked for it, and None at the end."""
    with os.fdopen(orders) as lines:
        for line in lines:
            order = json.loads(line)
            pid = os.fork()
            if pid == 0:
                os.close(replies)
                return order
            os.write(replies, b"%*d" % (WIDTH, pid))
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.write(replies, b"%*d" % (WIDTH, code))
    return None


def become(order):
    """Take on what a process of its own would have; return its main module and the source of that."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        file = os.open(order[name], os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = order["program"]
    main = types.ModuleType("__main__")
    main.__file__ = sys.argv[0]
    sys.modules["__main__"] = main
    sys.path[0] = str(Path(main.__file__).resolve().parent)
    return main, compile(Path(main.__file__).read_bytes(), main.__file__, "exec")


if __name__ == "__main__":
    for module in sys.argv[3:]:
        importlib.import_module(module)
    if order := fork_for_each(int(sys.argv[1]), int(sys.argv[2])):
        main, code = become(order)
        exec(code, main.__dict__)
