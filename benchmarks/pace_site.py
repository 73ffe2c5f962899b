"""The site of `pace.py`: numbered pages with twenty links each, on one host or on many."""

from collections.abc import Callable

from silkline.testing.site.responses import Fixed, Route, prepare
from silkline.testing.site.visits import Visit

LINKS = 20
PAGE_BYTES = 4_000
HOSTS = 20
PAGES = {"crawl": 2_000, "capped": 600, "slow": 150}
"""The number of pages by the first part of their path."""


def routes() -> dict[str, Route]:
    """Return ``/<part>/<hosts>/<number>`` for all parts: page *number*, with links to other pages of that part."""
    return {f"/{part}/*": _page(part, pages) for part, pages in PAGES.items()}


def _page(part: str, pages: int) -> Callable[[Visit], Fixed]:
    def answer(visit: Visit) -> Fixed:
        hosts, _, number = visit.path.removeprefix(f"/{part}/").partition("/")
        if not (hosts.isdecimal() and number.isdecimal() and int(number) < pages):
            return 404
        port = visit.host.rpartition(":")[2]
        links = [
            f"http://127.0.0.{1 + link % int(hosts)}:{port}/{part}/{hosts}/{link}"
            for link in _links(int(number), pages)
        ]
        anchors = "".join(f'<li><a href="{link}">page</a></li>' for link in links)
        return prepare(f"<h1>Page {number}</h1><ul>{anchors}</ul><p>{'silk ' * (PAGE_BYTES // 5)}</p>")

    return answer


def _links(number: int, pages: int) -> list[int]:
    """Return the numbers of the linked pages: the next two levels of a binary tree, which reaches all, and some others."""
    tree = [2 * number + 1, 2 * number + 2]
    others = [1 + (number * 31 + place * 97) % (pages - 1) for place in range(LINKS)]  # not the start page
    return [link for link in tree if link < pages] + others[: LINKS - sum(link < pages for link in tree)]
