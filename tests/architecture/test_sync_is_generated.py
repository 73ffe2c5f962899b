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


@pytest.mark.parametrize(("module", "twin"), generator.TWINS.items())
def test_modules_written_by_hand_define_what_the_generated_ones_use(module, twin):
    ours, theirs = import_module(module), import_module(twin)
    names = {name for name in generator.definitions(module) if not name.startswith("_")}
    async_names = {name for name in names if is_async(getattr(ours, name))} - {"sleep"}  # of the standard library
    for name in async_names:
        other = getattr(theirs, generator.sync_name(name) if inspect.isclass(getattr(ours, name)) else name)
        assert public(getattr(ours, name)) <= public(other), name


def is_async(member):
    return inspect.iscoroutinefunction(member) or getattr(member, "__name__", "").startswith("Async")


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
