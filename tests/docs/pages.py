"""The pages a reader may open, and what is in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "src" / "silkline" / "frontier" / "scripts" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"\s*^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def programs(page):
    """The Python blocks of a page, each with the output that the text block after it promises (None: nothing)."""
    text = page.read_text()
    found = []
    for block in _BLOCK.finditer(text):
        if block.group(1) == "python":
            output = _OUTPUT.match(text, block.end())
            found.append((block.group(2), output and output.group(1)))
    return found


def links(page):
    """Text and target of every link outside code blocks."""
    return _LINK.findall(_BLOCK.sub("", page.read_text()))


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
