"""Every command line that a page, a message or a docstring quotes is one that `silkline` knows, with options that it has."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from silkline.cli.main import ALIASES, COMMANDS, OF_WORKERS, app
from tests.docs.pages import PAGES, ROOT

SOURCE = ROOT / "src" / "silkline"
QUOTED = re.compile(r"(?:^[ $]*|[`|>] ?|&& |: |\bsee |\bSee |\brun |\bwith |\(|\"|')silkline +([a-z].*)", re.MULTILINE)
ENDS = re.compile(r"[`<;)\]]|\[/|[.,:?](?:\s|$)|\s(?:&&|\||#|–|→|to|and|or|in)\s|\s{2,}")
"""What comes after a command line in a sentence, a table or a shell."""
TO_ANY = {"--help", "-h", "--version"}
GONE = ["demo", "--queue"]
"""The changelog says that it was removed."""


def quoted(text):
    """The command lines in a text, without the word ``silkline``."""
    text = re.sub(r" \\\n +", " ", text)
    for found in QUOTED.finditer(text):
        yield ENDS.split(found[1], maxsplit=1)[0].split()


def texts():
    """Pages, templates, and the strings of the source; a value in an f-string becomes ``X``."""
    for path in (page for page in PAGES if page.parent.name != "adr"):
        yield path, path.read_text()
    for path in (*SOURCE.rglob("*.html"), *(ROOT / "examples").rglob("*.md"), *(ROOT / "examples").rglob("*.py")):
        yield path, path.read_text()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield path, "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.value


@cache
def options(*command):
    found = app
    for word in command:
        found = found[word]
    return {name for argument in found.assemble_argument_collection() for name in argument.names} | TO_ANY


def objection(words):
    """What is wrong with a command line; None if nothing."""
    noun, *rest = words
    if noun.startswith("{") or noun not in {*COMMANDS, "completion"}:
        return f"no command {noun!r}"
    command = [noun]
    if noun in COMMANDS and COMMANDS[noun][1] is None:  # a noun with verbs
        verb = rest[0] if rest else None
        if verb and re.match(r"[a-z]", verb):
            verb = ALIASES.get(verb, verb)
            if verb not in app[noun].resolved_commands():
                return f"no command {noun} {verb}"
            command.append(verb)
        elif verb and not verb.startswith(("-", "{{")):
            return f"{noun} needs a verb before {verb!r}"
        else:
            return None
    elif noun == "worker" and rest and rest[0] in OF_WORKERS:
        command = ["workers", rest[0]]
    given = {word.partition("=")[0].strip("[]") for word in rest if re.match(r"\[?--?[a-z]", word)}
    unknown = given - options(*command)
    return f"{' '.join(command)} has no {sorted(unknown)}" if unknown else None


def test_every_quoted_command_exists():
    wrong, number = [], 0
    for path, text in texts():
        for words in quoted(text):
            number += 1
            if words != GONE and (why := objection(words)):
                wrong.append(f"{path.relative_to(ROOT)}: silkline {' '.join(words)}: {why}")
    assert wrong == []
    assert number > 500, "the search finds too little to be right"


@pytest.mark.parametrize(
    "text",
    [
        "To list them: silkline dead books --host a.example",
        "`silkline hosts books`",
        "    $ silkline crawl remov books",
        "silkline run books.py --forevr",
        "Try again with silkline host ls books \\\n    --sorted",
    ],
)
def test_a_wrong_command_is_found(text):
    [words] = quoted(text)
    assert objection(words)


@pytest.mark.parametrize(
    "text", ["`silkline worker ls books`", "see silkline crawl list --json", "silkline dead --help"]
)
def test_a_right_one_is_not(text):
    [words] = quoted(text)
    assert objection(words) is None
