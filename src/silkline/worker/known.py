"""Known links: what this worker has lately seen the frontier take, so that it need not be offered again.

Most links of a site stand on most of its pages. A worker that remembers the last twenty thousand saves the frontier most
of its work. It forgets after a while, so that a URL which was forgotten on purpose is found again.
"""

from __future__ import annotations

from collections.abc import Sequence

from silkline.core.lease import Admission
from silkline.core.request import Request
from silkline.worker.recent import Recent

MOST = 20_000


class KnownLinks:
    """The links that the frontier has, as far as this worker remembers."""

    def __init__(self) -> None:
        self._urls: Recent[str] = Recent(MOST)

    def unknown(self, links: Sequence[str | Request]) -> list[str | Request]:
        """The links that have to be offered."""
        known = self._urls
        return [link for link in links if (url := _plain(link)) is None or url not in known]

    def note(self, links: Sequence[str | Request], answers: Sequence[Admission]) -> None:
        """Remember what the frontier has taken, or had."""
        for link, answer in zip(links, answers, strict=False):
            if answer is Admission.ADDED or answer is Admission.SEEN:
                url = _plain(link)
                if url is not None:
                    self._urls.add(url)


def _plain(link: str | Request) -> str | None:
    """The URL by which a link is known; None for one that the URL alone does not tell from others."""
    if isinstance(link, str):
        return link
    if link.dont_filter or link.method != "GET" or link.body:
        return None
    return link.url
