"""The three frontiers have the same methods: their own, those of their admin, and those of their internals."""

from __future__ import annotations

import inspect

import pytest

from silkline import Frontier, SyncFrontier
from silkline.frontier.admin import CrawlAdmin
from silkline.frontier.internal import FrontierInternals
from silkline.frontier.sync_admin import SyncCrawlAdmin
from silkline.frontier.sync_internal import SyncFrontierInternals
from silkline.testing import MemoryFrontier
from silkline.testing.memory.admin import MemoryCrawlAdmin
from silkline.testing.memory.internal import MemoryInternals
from tests.contract.frontiers import OPENED_AT_ONCE

FACES = [
    (Frontier, SyncFrontier, MemoryFrontier),
    (CrawlAdmin, SyncCrawlAdmin, MemoryCrawlAdmin),
    (FrontierInternals, SyncFrontierInternals, MemoryInternals),
]
"""The async class, the sync one, and the one in memory."""
each_face = pytest.mark.parametrize("kinds", FACES, ids=["frontier", "admin", "internal"])


def face(kind):
    """Public names, and the parameters of those that are methods."""
    names = [name for name in dir(kind) if not name.startswith("_")]
    return {name: parameters(getattr(kind, name)) for name in names}


def parameters(member):
    if isinstance(member, property):
        return "property"
    signature = inspect.signature(member)
    return [(one.name, one.kind, one.default, str(one.annotation)) for one in signature.parameters.values()]


def common_face(kind):
    """All but the inbox: it reads keys of others, of which memory has none."""
    return {name: member for name, member in face(kind).items() if name != "inbox"}


def common_methods(kind):
    """All but those that make an object, which is another one for plain code, and send nothing."""
    return [name for name, member in common_face(kind).items() if member != "property" and name not in OPENED_AT_ONCE]


@each_face
def test_a_sync_frontier_has_all_methods_of_a_frontier(kinds):
    ours, sync, _ = kinds
    assert face(sync) == face(ours)


@each_face
def test_memory_has_the_same_methods_with_the_same_parameters(kinds):
    ours, _, memory = kinds
    assert face(memory) == common_face(ours)


@each_face
def test_all_return_the_same_types(kinds):
    for name in common_methods(kinds[0]):
        types = [inspect.signature(getattr(kind, name)).return_annotation for kind in kinds]
        assert len(set(types)) == 1, name


@each_face
def test_what_is_awaited_on_one_is_awaited_on_the_other(kinds):
    ours, sync, memory = kinds
    for name in common_methods(ours):
        assert inspect.iscoroutinefunction(getattr(ours, name)), name
        assert inspect.iscoroutinefunction(getattr(memory, name)), name
        assert not inspect.iscoroutinefunction(getattr(sync, name)), name


@each_face
def test_every_method_of_the_async_classes_has_a_docstring(kinds):
    assert [name for name in face(kinds[0]) if not inspect.getdoc(getattr(kinds[0], name))] == []


async def test_each_frontier_has_the_three_faces(frontier):
    """The admin and the internals of a frontier are of its own kind."""
    whole = getattr(frontier, "_frontier", frontier)
    [kinds] = [kinds for kinds in zip(*FACES, strict=True) if isinstance(whole, kinds[0])]
    assert (type(whole), type(whole.admin), type(whole.internal)) == kinds
