"""The sync modules are what the async ones make of them, and those written by hand have the same names."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

GENERATOR = Path(__file__).parents[2] / "tools" / "generate_sync.py"


def load_generator():
    spec = importlib.util.spec_from_file_location("generate_sync", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate_sync"] = module  # a dataclass looks for its module
    spec.loader.exec_module(module)
    return module


generator = load_generator()


def test_the_sync_modules_are_as_generated():
    ran = subprocess.run([sys.executable, GENERATOR, "--check"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stdout + ran.stderr


def written_by_hand():
    """The async definitions that have a counterpart for plain code which is not generated."""
    names = generator.definitions(generator.BY_HAND)
    for module in generator.GENERATED:
        for name in sorted(generator.definitions(module)):
            if name != "P" and {name, generator.sync_name(name)} & names:  # a type variable
                yield module, name


def test_only_primitives_of_tasks_and_threads_are_written_by_hand():
    """The numbers of modules and definitions may only fall."""
    assert {module.rpartition(".")[2] for module, _ in written_by_hand()} == {"connection", "nodes"}
    assert len(list(written_by_hand())) <= 16


@pytest.mark.parametrize(
    ("module", "name"), [one for one in written_by_hand() if one[1] not in ("sleep", "READS_RESUME")]
)
def test_what_is_written_by_hand_has_the_methods_and_parameters_of_the_async_definition(module, name):
    ours, plain = getattr(import_module(module), name), import_module(generator.BY_HAND)
    assert public(ours) <= public(getattr(plain, generator.sync_name(name) if inspect.isclass(ours) else name))


def public(member):
    """The public methods of a class with their parameters, or the parameters of a function."""
    if not inspect.isclass(member):
        return {tuple(inspect.signature(member).parameters)}
    methods = inspect.getmembers(member, inspect.isfunction)
    return {(name, tuple(inspect.signature(method).parameters)) for name, method in methods if not name.startswith("_")}


@pytest.mark.parametrize(
    ("written", "made"),
    [
        (
            "async def f(self) -> AsyncIterator[int]:\n    return await g(1)\n",
            "def f(self) -> Iterator[int]:\n    return g(1)\n",
        ),
        ("x: Callable[[], Awaitable[list[int]]]\n", "x: Callable[[], list[int]]\n"),
        ("async with a, b:\n    pass  # for async code\n", "with a, b:\n    pass  # for plain code\n"),
        ('"""`Frontier` and Frontier."""\n', '"""`SyncFrontier` and Frontier."""\n'),
        ("y = 'await me'\n", "y = 'await me'\n"),
    ],
)
def test_what_becomes_of_async_code(written, made):
    assert generator.convert(written, {**generator.NAMES, "Frontier": "SyncFrontier"}) == made
