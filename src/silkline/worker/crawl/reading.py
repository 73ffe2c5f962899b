"""Reading pages: tables, the link to the next page, and data that pages declare for machines (JSON-LD, microdata, Open Graph).

Pages may be hostile, so each of these has limits: on elements, on nesting, and on the cells of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from silkline.errors import RequestError

UrlJoin = Callable[[str], str]
"""Returns a link of the page as an absolute URL, or raises `RequestError`."""

MOST_ELEMENTS = 10_000
"""Elements that declare something."""
DEEPEST = 64
"""Elements between a property and its item, and levels of nested items."""
MOST_TEXT = 8 * 2**20
"""Characters of all values or cells: elements in each other have the same text several times."""
MOST_CELLS = 200_000
WIDEST = 1_000
"""Columns of a table, and columns that one cell may span, as in the HTML standard."""


def text_in(element: LexborNode) -> str:
    """Return the text of an element, each run of whitespace as one space."""
    return " ".join(element.text().split())


# ── the article ──


class Article(msgspec.Struct, frozen=True):
    """The main text of a page, without navigation and comments, and what is known of it. What the page does not say is empty.

    - *text*: paragraphs, one per line. *title*, *author*, *site*, *description*: as the page says.
    - *date*: when it was published, as ``2026-11-19``. *language*: as the page declares it, such as ``en``.
    """

    text: str = ""
    title: str = ""
    author: str = ""
    date: str = ""
    language: str = ""
    site: str = ""
    description: str = ""


# ── declared data ──

Declared = dict[str, Any]
"""An object in the form of JSON-LD: ``@type`` and properties, which may be text, numbers, objects or lists of them."""


class StructuredData(msgspec.Struct, frozen=True):
    """What a page declares for machines.

    - *json_ld*: the objects of ``<script type="application/ld+json">``, also those in lists and in ``@graph``.
    - *microdata*: the items of ``itemscope`` in the same form; types of schema.org are without their address.
    - *open_graph*: the values of ``<meta property="og:title">`` and similar ones by their names; those that repeat are lists.
    - *errors*: why a script is not in *json_ld*.
    """

    json_ld: list[Declared]
    microdata: list[Declared]
    open_graph: dict[str, str | list[str]]
    errors: list[str]

    def of_type(self, name: str) -> list[Declared]:
        """Return all objects of this type, such as ``Product``, in JSON-LD and microdata, also those inside others."""
        return [one for one in _objects([*self.json_ld, *self.microdata]) if name in _types(one)]


def read_structured_data(tree: LexborHTMLParser, join: UrlJoin) -> StructuredData:
    """Return what a page declares."""
    errors: list[str] = []
    scripts = tree.css('script[type="application/ld+json" i]')[:MOST_ELEMENTS]
    json_ld = [one for script in scripts for one in _read_script(script.text(), errors)]
    return StructuredData(json_ld, _read_microdata(tree, join), _read_open_graph(tree), errors)


def _read_script(text: str, errors: list[str]) -> Iterator[Declared]:
    cleaned = text.strip().removeprefix("<!--").removesuffix("-->").strip().rstrip(";")
    try:
        found = msgspec.json.decode(cleaned)
    except (msgspec.DecodeError, RecursionError):
        try:
            found = msgspec.json.decode("".join(max(letter, " ") for letter in cleaned))
        except (msgspec.DecodeError, RecursionError) as error:
            errors.append(f"a script of JSON-LD cannot be read: {error}")
            return
    for one in found if isinstance(found, list) else [found]:
        if isinstance(one, dict):
            graph = one.get("@graph")
            yield from (part for part in graph if isinstance(part, dict)) if isinstance(graph, list) else (one,)


def _objects(values: Sequence[Any]) -> Iterator[Declared]:
    """Yield all objects in the order of the page."""
    waiting = [(value, 0) for value in reversed(values)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict):
            yield value
            inner = list(value.values())
        else:
            inner = value if isinstance(value, list) else []
        if depth < DEEPEST:
            waiting += [(one, depth + 1) for one in reversed(inner) if isinstance(one, dict | list)]


def _types(one: Declared) -> list[str]:
    given = one.get("@type")
    return [_short(str(name)) for name in (given if isinstance(given, list) else [given])]


def _short(name: str) -> str:
    """Return the name of a type without the address of schema.org."""
    place, _, last = name.rpartition("/")
    return last if place.partition("://")[2].removeprefix("www.") == "schema.org" else name


_SOURCES = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    **dict.fromkeys(("a", "area", "link"), "href"),
    "object": "data",
}
"""Elements whose value is a URL, and the attribute that has it."""
_VALUES = {"meta": "content", "data": "value", "meter": "value", "time": "datetime"}


def _read_microdata(tree: LexborHTMLParser, join: UrlJoin) -> list[Declared]:
    items: dict[int, Declared] = {}
    outermost: list[Declared] = []
    room = MOST_TEXT
    for element in _distinct(tree.css("[itemscope], [itemprop]")):
        attributes = element.attributes
        value: Any = None
        if "itemscope" in attributes:
            types = [_short(name) for name in (attributes.get("itemtype") or "").split()]
            value = items[element.mem_id] = {"@type": types[0] if len(types) == 1 else types} if types else {}
            if (identity := attributes.get("itemid")) is not None:
                value["@id"] = identity
        names = (attributes.get("itemprop") or "").split()
        owner = _owner(element, items) if names else None
        if owner is None:
            outermost += [value] if value is not None else []
            continue
        if value is None:
            value = _value_of(element, join)
            room -= len(value)
        if room < 0:
            break
        for name in names:
            _add(owner, name, value)
    return outermost


def _distinct(elements: Sequence[LexborNode]) -> list[LexborNode]:
    """Return each element once: a list of selectors finds those that match two of them twice."""
    return list({element.mem_id: element for element in elements[: 2 * MOST_ELEMENTS]}.values())[:MOST_ELEMENTS]


def _owner(element: LexborNode, items: dict[int, Declared]) -> Declared | None:
    """Return the item that a property belongs to."""
    parent = element.parent
    for _ in range(DEEPEST):
        if parent is None:
            return None
        if (item := items.get(parent.mem_id)) is not None:
            return item
        parent = parent.parent
    return None


def _value_of(element: LexborNode, join: UrlJoin) -> str:
    tag, attributes = element.tag or "", element.attributes
    if (source := _SOURCES.get(tag)) is not None:
        link = attributes.get(source) or ""
        try:
            return join(link)
        except RequestError:
            return link
    given = attributes.get(_VALUES.get(tag, "content"))
    return given if given is not None else text_in(element)


def _add(to: dict[str, Any], name: str, value: Any) -> None:
    """Add a value; values that repeat become a list."""
    before = to.get(name)
    if name not in to:
        to[name] = value
    elif isinstance(before, list):
        before.append(value)
    else:
        to[name] = [before, value]


def _read_open_graph(tree: LexborHTMLParser) -> dict[str, str | list[str]]:
    found: dict[str, Any] = {}
    for element in _distinct(tree.css("meta[property], meta[name]")):
        attributes = element.attributes
        name = attributes.get("property") or attributes.get("name") or ""
        is_known = attributes.get("property") is not None or name.startswith(("og:", "twitter:"))
        if is_known and ":" in name and (content := attributes.get("content")) is not None:
            _add(found, name, content)
    return found


# ── tables ──


class HtmlTable(msgspec.Struct, frozen=True):
    """A table: its caption, the texts of its header, and those of its rows. A cell that spans others is in each of them."""

    caption: str
    header: list[str]
    rows: list[list[str]]

    def dicts(self) -> list[dict[str, str]]:
        """Return each row by the header. A column without a name, or with the name of another one, has its number: ``column 3``."""
        width = max((len(row) for row in self.rows), default=0)
        names: list[str] = []
        for number in range(max(width, len(self.header))):
            name = self.header[number] if number < len(self.header) else ""
            names.append(name if name and name not in names else f"column {number + 1}")
        return [dict(zip(names, row, strict=False)) for row in self.rows]


def read_tables(elements: Sequence[LexborNode]) -> list[HtmlTable]:
    """Return the tables among *elements*. Tables in cells of others are separate."""
    left = [MOST_CELLS]
    return [_read_table(element, left) for element in elements if element.tag == "table"]


def _read_table(table: LexborNode, left: list[int]) -> HtmlTable:
    caption, heads, rows = "", list[list[str]](), list[list[str]]()
    spans: dict[int, tuple[str, int]] = {}
    for place, row in _rows_of(table):
        cells = [cell for cell in row.iter() if cell.tag in ("td", "th")]
        texts = _texts(cells, spans, left)
        if left[0] < 0:
            break
        is_head = place == "thead" or (not rows and bool(cells) and all(cell.tag == "th" for cell in cells))
        if is_head:
            heads.append(texts)
        elif texts:
            rows.append(texts)
    for child in table.iter():
        if child.tag == "caption":
            caption = text_in(child)
    return HtmlTable(caption, heads[-1] if heads else [], rows)


def _rows_of(table: LexborNode) -> Iterator[tuple[str, LexborNode]]:
    """Yield the rows of a table, and not those of tables in it, with the part of the table that they are in."""
    for part in table.iter():
        if part.tag == "tr":
            yield "", part
        elif part.tag in ("thead", "tbody", "tfoot"):
            yield from ((part.tag, row) for row in part.iter() if row.tag == "tr")


def _texts(cells: Sequence[LexborNode], spans: dict[int, tuple[str, int]], left: list[int]) -> list[str]:
    """Return the texts of a row. *spans* are the cells of earlier rows that reach into it, and the rows they still reach."""
    texts: list[str] = []

    def add_spans() -> None:
        while (span := spans.get(len(texts))) is not None and len(texts) < WIDEST:
            text, rows = span
            if rows > 1:
                spans[len(texts)] = (text, rows - 1)
            else:
                del spans[len(texts)]
            texts.append(text)

    for cell in cells:
        add_spans()
        text, rows = text_in(cell), _number(cell, "rowspan")
        for _ in range(min(_number(cell, "colspan"), WIDEST - len(texts))):
            if rows > 1:
                spans[len(texts)] = (text, rows - 1)
            texts.append(text)
    add_spans()
    left[0] -= len(texts) + sum(map(len, texts)) * MOST_CELLS // MOST_TEXT
    return texts


def _number(cell: LexborNode, name: str) -> int:
    given = (cell.attributes.get(name) or "").strip()
    return max(1, min(int(given), WIDEST)) if given.isascii() and given.isdigit() and len(given) < 9 else 1


# ── the next page ──

_DECLARED_NEXT = 'link[rel~="next" i][href], a[rel~="next" i][href]'
_MARKED_NEXT = (
    "a.next[href], .next > a[href], a.pagination-next[href], .pagination-next > a[href], a.page-next[href], "
    'a[aria-label="next" i][href], a[aria-label="next page" i][href], a[title="next page" i][href]'
)
_TEXTS = frozenset(
    {
        "next", "next page", "older posts", "»", "›", "→", "next »", "next ›", "next →", "next >", ">", ">>", "weiter", "nächste seite",
        "suivant", "page suivante", "siguiente", "successiva", "volgende", "próxima", "następna", "далее", "下一页", "次へ",
    }
)  # fmt: skip
MOST_LINKS = 2_000
LONGEST_TEXT = 20


def next_link(tree: LexborHTMLParser) -> LexborNode | None:
    """Return the link to the next page: one that is declared so, else one that is marked so, else one with such a text."""
    for selector in (_DECLARED_NEXT, _MARKED_NEXT):
        for element in tree.css(selector)[:MOST_LINKS]:
            if _is_usable(element):
                return element
    for element in tree.css("a[href]")[-MOST_LINKS:]:
        text = text_in(element)
        if len(text) <= LONGEST_TEXT and text.lower() in _TEXTS and _is_usable(element):
            return element
    return None


def _is_usable(element: LexborNode) -> bool:
    attributes = element.attributes
    is_off = attributes.get("aria-disabled") == "true" or "disabled" in (attributes.get("class") or "").split()
    return not is_off and (attributes.get("href") or "#")[0] != "#"
