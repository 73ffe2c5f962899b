"""The reference is complete and up to date."""

from __future__ import annotations

import inspect
import re

import pytest

import silkline
from docs import generate
from silkline import Frontier, errors
from silkline.core.lease import State
from silkline.frontier.admin import CrawlAdmin
from silkline.frontier.admin_verbs.dead_letters import DeadFilterArguments
from silkline.frontier.admin_verbs.stats import Stats
from silkline.frontier.arguments import CrawlArguments
from silkline.frontier.verbs.hosts import HostArguments
from silkline.frontier.verbs.settle import RetryArguments
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("page", generate.pages(), ids=lambda page: page.name)
def test_generated_pages_are_up_to_date(page):
    assert page.read_text() == generate.pages()[page], "run: make docs"


def face(method):
    """A method's parameters as they are called, without types."""
    signature = inspect.signature(method)
    bare = [one.replace(annotation=one.empty) for name, one in signature.parameters.items() if name != "self"]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def test_the_api_page_has_every_method_with_its_parameters():
    told = dict(re.findall(r"^### `([\w.]+)(\(.*\))`$", (REFERENCE / "api.md").read_text(), re.MULTILINE))
    assert told == methods_of(Frontier) | {f"admin.{name}": shape for name, shape in methods_of(CrawlAdmin).items()}


def methods_of(kind):
    """The public methods of a class, and their parameters."""
    public = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: face(member) for name, member in public.items() if not isinstance(member, property)}


def test_the_api_page_names_all_that_is_public():
    text = (REFERENCE / "api.md").read_text()
    fields = [
        *Stats.__struct_fields__,
        *DeadFilterArguments.__annotations__,
        *HostArguments.__annotations__,
        *RetryArguments.__annotations__,
    ]
    for name in (*silkline.__all__, *fields, *State):
        assert f"`{name}`" in text or f"`{name}(" in text, name


def test_the_errors_page_has_every_error():
    text = (REFERENCE / "errors.md").read_text()
    classes = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.SilklineError)]
    for one in classes:
        assert f"`{one.__name__}`" in text, one
    tree = inspect.getdoc(errors).partition("::\n\n")[2]
    assert inspect.cleandoc(tree) in text, "the tree of errors.py"


def test_the_settings_page_has_every_setting():
    text = (REFERENCE / "settings.md").read_text()
    for name in (*CrawlArguments.__annotations__, *inspect.signature(Frontier.open).parameters):
        assert name == "options" or f"`{name}`" in text, name
    for kind in (silkline.Politeness, silkline.Budget, silkline.Backoff, silkline.Request):
        for field in kind.__struct_fields__:
            assert f"`{field}`" in text, f"{kind.__name__}.{field}"
