"""What is public, and that docs and examples use nothing else."""

from __future__ import annotations

import ast
import enum
import inspect
import pydoc
import re
from functools import cached_property
from importlib import import_module
from types import FunctionType

import pytest

import silkline
from silkline import Frontier, SyncFrontier, errors
from silkline.frontier.admin import CrawlAdmin
from silkline.frontier.internal import FrontierInternals
from silkline.frontier.sync_admin import SyncCrawlAdmin
from silkline.frontier.sync_internal import SyncFrontierInternals
from tests.architecture.sources import ROOT, SOURCE
from tests.docs.pages import PAGES, programs
from tests.docs.pages import name_of as page_name

PUBLIC = [
    "silkline",
    "silkline.dashboard",
    "silkline.errors",
    "silkline.fetch",
    "silkline.scrapy",
    "silkline.sinks",
    "silkline.testing",
]
LAZY = ["silkline", "silkline.fetch"]
PRIVATE = re.compile(r"`[^`\n]*\bsilkline\.(?:cli|core|frontier|ops|runtime|tasks|worker)\b[^`\n]*`")


def test_the_front_door_is_counted():
    assert silkline.__all__ == [
        "Admission", "Backoff", "Budget", "Bury", "Complete", "Crawl", "Drop", "FetchOptions", "Frontier", "Lease", "LeaseLost",
        "Page", "Politeness", "Release", "Request", "Retries", "RetryIn", "RetryLater", "Revisit", "Scope", "SilklineError", "Strike",
        "SyncFrontier", "Tasks", "Worker", "WorkerOptions", "run",
    ]  # fmt: skip
    assert len(silkline.__all__) <= 27


@pytest.mark.parametrize("package", LAZY)
def test_the_three_lists_of_a_lazy_package_agree(package):
    """Type checkers read the imports, ``import *`` reads ``__all__``, and Python looks names up where they live."""
    module = import_module(package)
    tree = ast.parse(inspect.getsource(module))
    [typed] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imported = {alias.name: node.module for node in typed.body for alias in node.names}
    assert imported == module._HOMES
    assert sorted(module.__all__) == sorted(module._HOMES)


MOST_METHODS = {Frontier: 22, SyncFrontier: 22, CrawlAdmin: 33, SyncCrawlAdmin: 33}


@pytest.mark.parametrize("kind", MOST_METHODS)
def test_a_face_of_the_frontier_has_few_methods(kind):
    assert len(public_methods(kind)) <= MOST_METHODS[kind]


@pytest.mark.parametrize(
    "faces", [(Frontier, CrawlAdmin, FrontierInternals), (SyncFrontier, SyncCrawlAdmin, SyncFrontierInternals)]
)
def test_a_method_is_on_one_face_of_the_frontier(faces):
    """Workers use `Frontier`, operators its admin, and only Silkline its internals."""
    names = [name for kind in faces for name in public_methods(kind)]
    assert sorted(set(names)) == sorted(names)


def public_methods(kind):
    return [name for name, _ in inspect.getmembers(kind, inspect.isroutine) if not name.startswith("_")]


def test_pages_for_users_name_no_internals():
    """The changelog says what moved there, and an ADR why."""
    found = {page_name(page) for page in PAGES if ".internal." in page.read_text()}
    assert found <= {"docs/adr/0036-workers-use-the-frontier-operators-its-admin.md"}


def test_every_error_is_public():
    own = [name for name, value in vars(errors).items() if getattr(value, "__module__", "") == errors.__name__]
    assert errors.__all__ == sorted(own)


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_is_there_and_help_shows_what_it_is(package):
    module = import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        text = inspect.getdoc(value) or ""
        first = text.partition("\n")[0]
        assert first.endswith((".", ":", "::")), f"{package}.{name}: {first!r}"
        assert len(first) <= 130, f"{package}.{name}: {first!r}"
        assert first in pydoc.render_doc(value, renderer=pydoc.plaintext), f"{package}.{name}"
        assert value.__doc__ is not None, f"{package}.{name} inherits its docstring"


def public_classes():
    return sorted({value for value in public_values() if inspect.isclass(value)}, key=lambda kind: kind.__qualname__)


def public_values():
    return [getattr(import_module(package), name) for package in PUBLIC for name in import_module(package).__all__]


@pytest.mark.parametrize("kind", [*public_classes(), CrawlAdmin, SyncCrawlAdmin], ids=lambda kind: kind.__qualname__)
def test_help_explains_every_public_method_and_property(kind):
    """Those that a class of Silkline defines; what Scrapy defines, it documents."""
    bare = []
    for name in (name for name in dir(kind) if not name.startswith("_")):
        [home, *_] = [one for one in kind.__mro__ if name in vars(one)]
        member = inspect.getattr_static(kind, name)
        member = getattr(member, "__func__", member)  # of a class method
        if home.__module__.startswith("silkline") and isinstance(member, FunctionType | property | cached_property):
            bare += [] if inspect.getdoc(getattr(kind, name)) else [name]
    assert bare == []


def fields_of(kind):
    if issubclass(kind, enum.Enum):
        return list(kind.__members__)
    return getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", ())


@pytest.mark.parametrize(
    "kind", [kind for kind in public_classes() if fields_of(kind)], ids=lambda kind: kind.__qualname__
)
def test_help_explains_every_field(kind):
    """In the docstring of the class: `help` does not show strings below fields."""
    assert [name for name in fields_of(kind) if not re.search(rf"[*`]{name}[*`]", kind.__doc__)] == []


def own_imports(source):
    """Each name of Silkline that a program imports, with its module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "silkline":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.partition(".")[0] == "silkline")


def private_imports(source):
    return [
        (module, name)
        for module, name in own_imports(source)
        if module not in PUBLIC or (name and name not in import_module(module).__all__)
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if programs(page)], ids=page_name)
def test_programs_in_the_docs_import_public_names(page):
    assert [found for source, _ in programs(page) for found in private_imports(source)] == []


PROGRAMS = [*sorted((ROOT / "examples").rglob("*.py")), *sorted((SOURCE / "cli" / "templates").rglob("*.py"))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_examples_import_public_names(program):
    assert private_imports(program.read_text()) == []


def test_a_private_import_is_found():
    assert private_imports("from silkline.core.url import parse\nfrom silkline import parse\nimport silkline.core") == [
        ("silkline.core.url", "parse"),
        ("silkline", "parse"),
        ("silkline.core", None),
    ]


def test_pages_for_users_name_no_private_module():
    pages = [page for page in PAGES if page_name(page.parent) not in {"docs/internals", "docs/adr"}]
    named = {page_name(page): PRIVATE.findall(page.read_text()) for page in pages if page.name != "CHANGELOG.md"}
    named = {name: found for name, found in named.items() if found and not name.startswith(("CONTRIBUTING", "src/"))}
    assert named == {}
