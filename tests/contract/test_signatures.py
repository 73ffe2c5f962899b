"""The three frontiers have the same face."""

from __future__ import annotations

import inspect

import pytest

from silkline import Frontier, SyncFrontier
from silkline.testing import MemoryFrontier


def face(kind):
    """Public names, and the parameters of those that are methods."""
    names = [name for name in dir(kind) if not name.startswith("_")]
    return {name: parameters(getattr(kind, name)) for name in names}


def parameters(member):
    if isinstance(member, property):
        return "property"
    signature = inspect.signature(member)
    return [(one.name, one.kind, one.default, str(one.annotation)) for one in signature.parameters.values()]


def common_face():
    """All but the inbox: it reads keys of others, of which memory has none, and plain code has no use for it yet."""
    return {name: member for name, member in face(Frontier).items() if name != "inbox"}


@pytest.mark.parametrize("other", [SyncFrontier, MemoryFrontier])
def test_all_have_the_same_methods_with_the_same_parameters(other):
    assert face(other) == common_face()


@pytest.mark.parametrize("other", [SyncFrontier, MemoryFrontier])
def test_all_answer_with_the_same_types(other):
    for name in common_face():
        if not isinstance(getattr(Frontier, name), property):
            answers = [inspect.signature(getattr(kind, name)).return_annotation for kind in (Frontier, other)]
            assert answers[0] == answers[1], name


def test_what_is_awaited_on_one_is_awaited_on_the_other():
    for name in common_face():
        if not isinstance(getattr(Frontier, name), property):
            assert inspect.iscoroutinefunction(getattr(Frontier, name)), name
            assert inspect.iscoroutinefunction(getattr(MemoryFrontier, name)), name
            assert not inspect.iscoroutinefunction(getattr(SyncFrontier, name)), name


def test_every_method_of_the_async_frontier_tells_what_it_promises():
    silent = [name for name in face(Frontier) if not inspect.getdoc(getattr(Frontier, name))]
    assert set(silent) <= {"crawl", "resume", "stats"}
