"""Revisits: what one attempt at a page means for its next visit."""

from __future__ import annotations

import time

import msgspec

from silkline.core.request import Request
from silkline.core.revisit import (
    FAILURE_GROWTH,
    MOST_FAILURES,
    LastVisit,
    Revisit,
    conditional_headers,
    digest_of,
    is_similar,
    likeness,
    validators,
)
from silkline.core.verdict import Bury, Complete, NextVisit, Verdict
from silkline.fetch.fetcher import Response

NOT_MODIFIED = 304
SAFE = frozenset({"GET", "HEAD"})


class PageRevisit:
    """The visit of one page, and what is stored for the next one."""

    def __init__(self, revisit: Revisit, request: Request) -> None:
        self._revisit = revisit
        self._request = request
        self._before = request.visit
        self._visit: LastVisit | None = None
        self._is_conditional = False

    def conditional(self, request: Request) -> Request:
        """Return *request* with the headers for a reply 304. Its own headers take precedence."""
        if self._before is None or not self._revisit.conditional or request.method not in SAFE:
            return request
        more = conditional_headers(self._before)
        if more and request.headers:
            own = {name.lower() for name in request.headers}
            more = {name: value for name, value in more.items() if name.lower() not in own}
        if not more:
            return request
        self._is_conditional = True
        return msgspec.structs.replace(request, headers={**request.headers, **more})

    def is_not_modified(self, response: Response) -> bool:
        """Return whether the server has replied that the page is as it was. Notes it for the next visit."""
        if not (self._is_conditional and response.status == NOT_MODIFIED):
            return False
        if not self._is_as_before(response):
            self._note(response, changed=False)
        return True

    def _is_as_before(self, response: Response) -> bool:
        """Return whether a reply 304 changes nothing of what is stored. Then the stored record stays, which saves most of the cost."""
        before, headers = self._before, response.headers
        if before is None or before.failures or self._revisit.is_adaptive or before.interval != self._revisit.first:
            return False
        if headers.get("last-modified") is not None:
            return False
        return headers.get("etag") in (None, before.etag)

    def is_unchanged(self, response: Response) -> bool:
        """Compare a page with that of the last visit, and note it. Returns whether its handler need not be called."""
        before, digest, simhash = self._before, digest_of(response.body), 0
        same = before is not None and before.digest == digest
        if self._revisit.similar is not None:
            simhash = before.likeness if before and same and before.likeness else likeness(response.body)
            same = same or (before is not None and is_similar(before.likeness, simhash, self._revisit.similar))
        self._note(response, changed=not same, digest=digest, simhash=simhash)
        return same and self._revisit.skip_unchanged

    def redirects(self, response: Response, location: str) -> None:
        """Note a redirect. Its target is what may change."""
        digest = digest_of(location.encode())
        self._note(response, changed=self._before is None or self._before.digest != digest, digest=digest)

    def _note(
        self, response: Response, *, changed: bool, digest: int | None = None, simhash: int | None = None
    ) -> None:
        before, now = self._before or LastVisit(visits=0), int(time.time())
        first = self._before is None
        interval = self._revisit.next_interval(None if first else before.interval, changed=changed)
        stored = validators(response.headers.get("etag"), response.headers.get("last-modified"))
        if digest is None:  # a 304 need not repeat what is still valid
            stored = stored._replace(etag=stored.etag or before.etag, modified=stored.modified or before.modified)
        self._visit = LastVisit(
            interval=round(interval),
            changed=now if changed else before.changed,
            changes=before.changes + (changed and not first),
            visits=before.visits + (digest is not None),
            digest=before.digest if digest is None else digest,
            modified=stored.modified,
            etag=stored.etag,
            likeness=before.likeness if simhash is None else simhash,
        )

    def completed(self, verdict: Complete) -> Complete:
        """Return the verdict on a page that is done, with its next visit. A page that was never fetched has none."""
        if self._visit is not None:
            return self._with(verdict, self._visit, self._visit.interval)
        return verdict if self._before is None else self._with(verdict, None, self._before.interval)

    def failed(self, verdict: Bury) -> Verdict:
        """Return the verdict on a page that could not be fetched: it is visited again if an earlier visit was successful.

        The interval doubles for each failed visit. After three in a row, the page becomes a dead letter.
        """
        if self._before is None or self._before.failures + 1 >= MOST_FAILURES:
            return verdict
        visit = msgspec.structs.replace(self._before, failures=self._before.failures + 1)
        again = self._with(Complete(), visit, visit.interval * FAILURE_GROWTH**visit.failures)
        return again if again.next_visit else verdict

    def _with(self, verdict: Complete, visit: LastVisit | None, after: float) -> Complete:
        expires = self._request.expires
        if expires is not None and time.time() + after >= expires:
            return verdict
        return msgspec.structs.replace(verdict, next_visit=NextVisit(after, visit))
