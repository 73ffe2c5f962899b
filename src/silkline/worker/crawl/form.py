"""PageForm: a form of a page, and the request that a browser makes of it.

The fields of a form are found as browsers do: by the tree, by the attribute ``form``, and in forms that a table has torn apart. What is
sent follows the HTML standard (constructing the entry list, and form submission).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import xxhash
from selectolax.lexbor import LexborNode

from silkline.core.request import Request
from silkline.core.url import join, parse
from silkline.errors import FormError, RequestError
from silkline.fetch import charset
from silkline.frontier.store import record
from silkline.worker.crawl.bodies import URLENCODED, text_of, urlencode, with_crlf

if TYPE_CHECKING:
    from silkline.worker.crawl.page import Page

MULTIPART, PLAIN = "multipart/form-data", "text/plain"
MOST_FIELDS = 5_000
"""Fields of one form. Web servers accept about a thousand."""
MOST_SHOWN = 20
"""Names of fields in an error."""

FieldValue = str | float | bool | Sequence[str | int | float] | None
"""The value of a field: text or a number, True or False for a checkbox, a list for several values, or None to leave it out."""

_CONTROLS = frozenset({"input", "select", "textarea", "button"})
_TABLES = frozenset({"table", "tbody", "thead", "tfoot", "tr"})
_CHOICES = frozenset({"checkbox", "radio"})
_SUBMITS = frozenset({"submit", "image"})
_INERT = frozenset({"button", "reset"})
_ONE_LINE = frozenset({"text", "search", "tel", "password", "url", "email"})


class Option(NamedTuple):
    """An option of a select element."""

    value: str
    label: str
    selected: bool
    disabled: bool


class FormEntry(NamedTuple):
    """A name and a value that are sent."""

    name: str
    value: str
    is_file: bool = False


class Control(msgspec.Struct):
    """A field or a button of a form, and its current values."""

    node: LexborNode
    kind: str
    """The type of an input or a button, or ``select``, ``selects`` (of several options) or ``textarea``."""
    name: str
    value: str
    disabled: bool
    checked: bool = False
    options: list[Option] = []
    values: list[str] | None = None
    """The values that are sent; None for those of the page."""

    def sent(self) -> list[str]:
        """Return the values that a browser sends, without buttons."""
        if self.values is not None:
            return self.values
        if self.disabled or self.kind in _SUBMITS or self.kind in _INERT:
            return []
        if self.kind in _CHOICES:
            return [self.value] if self.checked else []
        if self.kind in ("select", "selects"):
            return self._selected()
        return [self.value]

    def _selected(self) -> list[str]:
        chosen = [one for one in self.options if one.selected]
        if self.kind == "selects":
            return [one.value for one in chosen if not one.disabled]
        if chosen:
            return [] if chosen[-1].disabled else [chosen[-1].value]
        return next(([one.value] for one in self.options if not one.disabled), [])


class PageForm:
    """A form of a page. `submit` returns the request that a browser makes of it.

    *method* is ``GET`` or ``POST``, and *action* the URL to which it is sent.
    """

    def __init__(self, page: Page, element: LexborNode, selector: str) -> None:
        self._page = page
        self._element = element
        self._what = f"the form {selector!r} on {page.url}"
        self._controls = self._read(element)
        attributes = element.attributes
        self.method = _method_of(attributes.get("method"))
        self.action = self._address(attributes.get("action"))

    def __repr__(self) -> str:
        return f"<Form {self.method} {self.action}: {', '.join(self.fields)}>"

    @property
    def fields(self) -> dict[str, str | list[str] | None]:
        """The fields by name, and what is sent for each without changes: text, a list of several, or None for nothing."""
        found: dict[str, list[str]] = {}
        for one in self._named():
            found.setdefault(one.name, []).extend(one.sent())
        return {name: values if len(values) > 1 else next(iter(values), None) for name, values in found.items()}

    @property
    def buttons(self) -> list[str]:
        """The names of the submit buttons, or what is written on them."""
        return [one.name or _label_of(one) for one in self._controls if one.kind in _SUBMITS]

    def submit(
        self,
        handler: object = None,
        values: Mapping[str, FieldValue] | None = None,
        /,
        *,
        button: str | Literal[False] | None = None,
        **fields: FieldValue,
    ) -> Request | None:
        """Return the request of the form with these fields filled in, as `Page.follow` does: it goes to *handler*.

        *values* are further fields, for names that Python cannot have as arguments. *button* is the name, the value or the text of the
        button that is clicked; False for none, by default the first one. Raises `FormError` if the form has no such field, option
        or button.
        """
        filled = [msgspec.structs.replace(one) for one in self._controls]
        for name, value in {**(values or {}), **fields}.items():
            self._fill([one for one in filled if one.name == name and one.kind not in _INERT | _SUBMITS], name, value)
        clicked = self._button(button)
        request = self._request(list(self._entries(filled, clicked)), clicked)
        followed = self._page.follow(request, handler)
        if not isinstance(followed, Request):
            return None
        record.encode(followed, parse(followed.url))  # raises RequestTooLarge here rather than when the page is done
        return followed

    # ── reading ──

    def _read(self, form: LexborNode) -> list[Control]:
        controls: list[Control] = []
        for node, disabled in _controls_of(form, self._page.html.root):
            if len(controls) >= MOST_FIELDS:
                raise FormError(
                    f"{self._what} has more than {MOST_FIELDS:,} fields; send those that matter with page.follow(url, data={{…}})"
                )
            controls.append(_control_of(node, disabled))
        return controls

    def _named(self) -> list[Control]:
        return [one for one in self._controls if one.name and one.kind not in _INERT | _SUBMITS]

    def _address(self, action: str | None) -> str:
        """Return the URL to which the form is sent. It is left as it is if it is not a web address, which `follow` counts."""
        action = (action or "").strip()
        try:
            return join(self._page.base, action).url if action else parse(self._page.url).url
        except RequestError:
            return action

    # ── filling in ──

    def _fill(self, controls: list[Control], name: str, value: FieldValue) -> None:
        """Set the values of the fields with a name."""
        if not controls:
            names = list(dict.fromkeys(one.name for one in self._named()))
            raise FormError(f"{self._what} has no field {name!r}; {_listed('its fields are', names)}")
        choices = [one for one in controls if one.kind in _CHOICES]
        select = controls[0] if len(controls) == 1 and controls[0].kind in ("select", "selects") else None
        if value is None:
            for one in controls:
                one.values = []
        elif choices:  # a hidden field of the same name is what is sent if the box is not checked
            self._choose(choices, name, value)
        elif select:
            self._select(select, name, value)
        else:
            self._write(controls, name, value)

    def _choose(self, choices: list[Control], name: str, value: FieldValue) -> None:
        if isinstance(value, bool):
            if value and len(choices) > 1 and choices[0].kind == "radio":
                raise FormError(
                    f"the field {name!r} of {self._what} {_listed('is one of', _values(choices))}; got True"
                )
            for one in choices:
                one.values = [one.value] if value else []
            return
        wanted = self._texts(name, value)
        unknown = set(wanted) - {one.value for one in choices}
        if unknown or (choices[0].kind == "radio" and len(wanted) != 1):
            raise FormError(
                f"the field {name!r} of {self._what} {_listed('can be', _values(choices))}, got {value!r:.100}"
            )
        for one in choices:
            one.values = [one.value] if one.value in wanted else []

    def _select(self, select: Control, name: str, value: FieldValue) -> None:
        wanted = self._texts(name, value)
        by_value = {one.value: one.value for one in select.options}
        by_label = {one.label: one.value for one in reversed(select.options)}
        found = [by_value.get(one, by_label.get(one)) for one in wanted]
        if None in found or (select.kind == "select" and len(found) != 1):
            raise FormError(
                f"the field {name!r} of {self._what} {_listed('can be', list(by_value))}, got {value!r:.100}"
            )
        select.values = [one for one in found if one is not None]

    def _write(self, controls: list[Control], name: str, value: FieldValue) -> None:
        texts = self._texts(name, value)
        if isinstance(value, bool) or any(one.kind == "file" for one in controls):
            why = "is no checkbox" if isinstance(value, bool) else "is for a file, which cannot be sent"
            raise FormError(f"the field {name!r} of {self._what} {why}")
        if len(texts) != len(controls):
            raise FormError(
                f"{self._what} has {len(controls)} fields {name!r}, got {len(texts)} values; give a list with a value for each"
            )
        for one, text in zip(controls, texts, strict=True):
            one.values = [text]

    def _texts(self, name: str, value: FieldValue) -> list[str]:
        try:
            return [text_of(name, one) for one in (value if isinstance(value, list | tuple) else [value])]
        except RequestError as error:
            raise FormError(f"{self._what}: {error}") from None

    def _button(self, wanted: str | Literal[False] | None) -> Control | None:
        buttons = [one for one in self._controls if one.kind in _SUBMITS]
        if wanted is False:
            return None
        if wanted is None:
            return next((one for one in buttons if not one.disabled), None)
        for trait in (lambda one: one.name, lambda one: one.value, _label_of, lambda one: one.node.id):
            found = [one for one in buttons if trait(one) == wanted]
            if found:
                return found[0]
        raise FormError(f"{self._what} has no button {wanted!r}; {_listed('its buttons are', self.buttons)}")

    # ── sending ──

    def _entries(self, filled: list[Control], clicked: Control | None) -> Iterator[FormEntry]:
        for one in filled:
            if clicked is not None and one.node.mem_id == clicked.node.mem_id:
                yield from _of_button(clicked)
            elif one.name:
                is_charset = one.kind == "hidden" and one.name.lower() == "_charset_" and one.values is None
                for value in one.sent():
                    yield FormEntry(
                        one.name, charset.name_of(self._charset) if is_charset else value, one.kind == "file"
                    )

    def _request(self, entries: list[FormEntry], clicked: Control | None) -> Request:
        own = clicked.node.attributes if clicked else {}
        method = _method_of(own["formmethod"]) if own.get("formmethod") else self.method
        url = self._address(own["formaction"]) if own.get("formaction") else self.action
        if method == "GET":
            return Request(
                _with_query(url, _urlencoded(entries, self._charset)[0].decode()), headers=self._origin(url, method)
            )
        given = own.get("formenctype") or self._element.attributes.get("enctype") or ""
        content, content_type = _BODIES.get(given.strip().lower(), _urlencoded)(entries, self._charset)
        headers = {"Content-Type": content_type, **self._origin(url, method)}
        return Request(url, method, headers, content)

    @property
    def _charset(self) -> str:
        """The Python codec in which the fields are sent."""
        accepted = self._element.attributes.get("accept-charset") or ""
        codec = next((known for label in accepted.split() if (known := charset.codec_of(label))), self._page.encoding)
        return "utf-8" if codec.startswith("utf-16") else codec

    def _origin(self, url: str, method: str) -> dict[str, str]:
        """Return the headers that say where the form was: servers compare them, against forged requests."""
        here = parse(self._page.url)
        try:
            there = parse(url)
        except RequestError:
            return {}
        origin = f"{here.scheme}://{here.host}"
        if here.scheme == "https" and there.scheme == "http":
            return {"Origin": "null"} if method == "POST" else {}
        stays = (here.scheme, here.host) == (there.scheme, there.host)
        sent = {"Referer": origin + (here.path if stays else "/")}
        return sent | {"Origin": origin} if method == "POST" else sent


# ── the fields of a form ──


class _Place(NamedTuple):
    """Where in the tree an element is."""

    table: int
    """How deep in the tree the content of the innermost table is."""

    form: int | None
    """The innermost form around it, by its id in memory."""
    disabled: bool


OUTSIDE = _Place(table=0, form=None, disabled=False)


def _controls_of(form: LexborNode, root: LexborNode | None) -> Iterator[tuple[LexborNode, bool]]:
    """Yield the fields and buttons of a form in their order, and whether each is in a disabled fieldset.

    One walk over the page, so that its cost does not depend on how deep the page is nested.
    """
    wanted, name = form.mem_id, form.id
    torn = None  # a form that a table has torn apart: the parser leaves it empty, and its fields follow it
    torn_depth = 0
    stack: list[tuple[Iterator[LexborNode], _Place]] = [(iter([root] if root else []), OUTSIDE)]
    while stack:
        node = next(stack[-1][0], None)
        if node is None:
            stack.pop()
            if len(stack) < torn_depth:
                torn = None
            continue
        place, tag = stack[-1][1], node.tag
        if tag == "form":
            parent = node.parent
            torn = None
            if node.first_child is None and parent is not None and parent.tag in _TABLES:
                torn, torn_depth = node.mem_id, place.table
        elif tag in _CONTROLS:
            attributes = node.attributes
            if "form" in attributes:
                mine = bool(name) and attributes["form"] == name
            else:
                mine = wanted == (place.form or torn)
            if mine:
                yield node, place.disabled
            if tag != "button":
                continue
        stack.append((node.iter(), _inside(node, tag, place, len(stack) + 1)))


def _inside(node: LexborNode, tag: str | None, place: _Place, depth: int) -> _Place:
    """Return the place of the children of an element, which are *depth* deep."""
    if tag == "table":
        return place._replace(table=depth)
    if tag == "form":
        return place._replace(form=node.mem_id)
    if tag == "fieldset" and not place.disabled and "disabled" in node.attributes:
        return place._replace(disabled=True)
    if tag == "legend" and place.disabled and _enables(node):
        return place._replace(disabled=False)
    return place


def _enables(legend: LexborNode) -> bool:
    """Return whether the fields in a legend are enabled although their fieldset is not: they are in the first one."""
    parent = legend.parent
    if parent is None or parent.tag != "fieldset" or "disabled" not in parent.attributes:
        return False
    first = next((one for one in parent.iter() if one.tag == "legend"), None)
    return first is not None and first.mem_id == legend.mem_id


def _control_of(node: LexborNode, disabled: bool) -> Control:  # noqa: FBT001
    attributes = node.attributes
    tag = node.tag or ""
    name = attributes.get("name") or ""
    disabled = disabled or "disabled" in attributes
    if tag == "select":
        kind = "selects" if "multiple" in attributes else "select"
        return Control(node, kind, name, "", disabled, options=list(_options_of(node)))
    if tag == "textarea":
        return Control(node, tag, name, node.text(), disabled)
    kind = (attributes.get("type") or "").strip().lower() or ("submit" if tag == "button" else "text")
    value = attributes.get("value")
    if tag == "button":
        kind = kind if kind in _INERT else "submit"
        return Control(node, kind, name, value or "", disabled)
    if value is None:
        value = {"checkbox": "on", "radio": "on", "color": "#000000", "range": "50"}.get(kind, "")
    if kind in _ONE_LINE or kind not in _KINDS:
        value = value.replace("\r", "").replace("\n", "")
    return Control(node, kind, name, value, disabled, checked="checked" in attributes)


_KINDS = frozenset({
    "hidden", "date", "month", "week", "time", "datetime-local", "number", "range", "color", "checkbox", "radio", "file",
    "submit", "image", "reset", "button",
})  # fmt: skip


def _options_of(select: LexborNode) -> Iterator[Option]:
    for node in select.css("option"):
        attributes, parent = node.attributes, node.parent
        group = parent is not None and parent.tag == "optgroup" and "disabled" in parent.attributes
        text = " ".join(node.text().split())
        value = attributes["value"] or "" if "value" in attributes else text
        yield Option(value, text, "selected" in attributes, group or "disabled" in attributes)


def _label_of(button: Control) -> str:
    return button.value if button.node.tag == "input" else " ".join(button.node.text().split())


def _of_button(button: Control) -> Iterator[FormEntry]:
    if button.kind == "image":
        prefix = f"{button.name}." if button.name else ""
        yield from (FormEntry(f"{prefix}x", "0"), FormEntry(f"{prefix}y", "0"))
    elif button.name:
        yield FormEntry(button.name, button.value)


def _method_of(text: str | None) -> str:
    return "POST" if (text or "").strip().lower() == "post" else "GET"


def _values(choices: Iterable[Control]) -> list[str]:
    return [one.value for one in choices]


def _listed(what: str, names: Sequence[str]) -> str:
    if not names:
        return "it has none"
    more = f" and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
    return f"{what} {', '.join(repr(name[:80]) for name in names[:MOST_SHOWN])}{more}"


# ── bodies ──


def _with_query(url: str, query: str) -> str:
    return f"{url.partition('#')[0].partition('?')[0]}?{query}" if query else url.partition("#")[0].partition("?")[0]


def _urlencoded(entries: list[FormEntry], codec: str) -> tuple[bytes, str]:
    return urlencode(((one.name, one.value) for one in entries), codec), URLENCODED


def _multipart(entries: list[FormEntry], codec: str) -> tuple[bytes, str]:
    """Return the parts of a form. The boundary depends only on them, so that equal forms are equal requests."""
    parts = []
    for name, value, is_file in entries:
        quoted = with_crlf(name).replace("\r\n", "%0D%0A").replace('"', "%22")
        file = '; filename=""\r\nContent-Type: application/octet-stream' if is_file else ""
        part = f'Content-Disposition: form-data; name="{quoted}"{file}\r\n\r\n{with_crlf(value)}\r\n'
        parts.append(part.encode(codec, "xmlcharrefreplace"))
    content = b"".join(parts)
    boundary = _boundary(content)
    mark = f"--{boundary}".encode()
    return b"".join(
        b"%b\r\n%b" % (mark, part) for part in parts
    ) + mark + b"--\r\n", f"{MULTIPART}; boundary={boundary}"


def _boundary(content: bytes) -> str:
    """Return a boundary that does not occur in the content."""
    seed = 0
    while (boundary := f"----silkline{xxhash.xxh3_128_hexdigest(content, seed)}").encode() in content:
        seed += 1
    return boundary


def _plain(entries: list[FormEntry], codec: str) -> tuple[bytes, str]:
    lines = "".join(f"{with_crlf(name)}={with_crlf(value)}\r\n" for name, value, _ in entries)
    return lines.encode(codec, "xmlcharrefreplace"), PLAIN


_BODIES: Mapping[str, Any] = {URLENCODED: _urlencoded, MULTIPART: _multipart, PLAIN: _plain}
