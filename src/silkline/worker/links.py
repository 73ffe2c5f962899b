"""Links: from what stands in a page to the request it means, or the reason why it is not followed.

Most links of a site stand on most of its pages, so what was decided of a link is remembered for the next page that has it.
"""

from __future__ import annotations

from silkline.core.errors import RequestError
from silkline.core.request import Request
from silkline.core.scope import Scope
from silkline.core.url import Address, join

MOST = 10_000
"""Links that are remembered."""

Decision = Request | str
"""The request that a link means, or the reason why it is not followed."""


class Links:
    """The links of one worker's pages, decided by the crawl's scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._memory: dict[tuple[str, str, str, int], dict[str, Decision]] = {}
        self._count = 0

    def of(self, base: Address, page: Address, handler: str, depth: int) -> LinksOfPage:
        """The links of *page*, relative to *base*, that go to *handler*."""
        if self._count > MOST:
            self._memory.clear()
            self._count = 0
        return LinksOfPage(self, base, page, handler, depth)

    def memory(self, place: str, page: Address, handler: str, depth: int) -> dict[str, Decision]:
        """What is known of the hrefs at *place*: they mean the same on all pages for which these four are the same."""
        return self._memory.setdefault((place, page.host, handler, depth), {})

    def count(self) -> None:
        self._count += 1


class LinksOfPage:
    """Decides on one page's links. Requests never change, so the same one serves all pages with that link."""

    def __init__(self, links: Links, base: Address, page: Address, handler: str, depth: int) -> None:
        self._links = links
        self._base = base
        self._page = page
        self._handler = handler
        self._depth = depth
        folder = base.path[: base.path.partition("?")[0].rindex("/")]
        self._absolute = links.memory(base.origin, page, handler, depth)
        self._relative = links.memory(base.origin + folder + "/", page, handler, depth)

    def decide(self, href: str) -> Decision:
        """The request that *href* means here, or the reason why it is not followed."""
        first = href[:1]
        if first == "/":
            memory = self._absolute
        elif first in ("?", "#", ""):
            return self._decide(href)  # they depend on the whole address of the page
        else:
            memory = self._relative
        decision = memory.get(href)
        if decision is None:
            decision = memory[href] = self._decide(href)
            self._links.count()
        return decision

    def _decide(self, href: str) -> Decision:
        try:
            link = join(self._base, href)
        except RequestError:
            return "not a web address"
        reason = self._links.scope.objection(link, self._page, self._depth)
        return reason or Request(link.url, handler=self._handler, depth=self._depth)
