"""Known links: what this worker has lately seen the frontier take, so that it need not be offered again.

Most links of a site stand on most of its pages. A worker that remembers the last twenty thousand saves the frontier most
of its work. It forgets after a while, so that a URL which was forgotten on purpose is found again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from silkline.core.lease import Admission
from silkline.core.request import Request

MOST = 20_000
SECONDS = 300.0


class KnownLinks:
    """Two generations of URLs: when the younger is full or old, the elder is forgotten."""

    def __init__(self) -> None:
        self._young: set[str] = set()
        self._old: set[str] = set()
        self._turn = time.monotonic() + SECONDS

    def unknown(self, links: Sequence[str | Request]) -> list[str | Request]:
        """The links that have to be offered."""
        young, old = self._young, self._old
        return [link for link in links if (url := _plain(link)) is None or (url not in young and url not in old)]

    def note(self, links: Sequence[str | Request], answers: Sequence[Admission]) -> None:
        """Remember what the frontier has taken, or had."""
        if len(self._young) >= MOST or time.monotonic() > self._turn:
            self._old, self._young = self._young, set()
            self._turn = time.monotonic() + SECONDS
        for link, answer in zip(links, answers, strict=False):
            if answer is Admission.ADDED or answer is Admission.SEEN:
                url = _plain(link)
                if url is not None:
                    self._young.add(url)


def _plain(link: str | Request) -> str | None:
    """The URL by which a link is known; None for one that the URL alone does not tell from others."""
    if isinstance(link, str):
        return link
    if link.dont_filter or link.method != "GET" or link.body:
        return None
    return link.url
