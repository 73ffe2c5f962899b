"""Under which identities a spider's crawl may remember a URL."""

from __future__ import annotations

from scrapy import Request
from scrapy.utils.request import fingerprint

from silkline.scrapy.dupefilter import RFPDupeFilter


def identities_of(url: str) -> tuple[bytes, ...]:
    """Scrapy's own fingerprint, and that of scrapy-redis. A project's own fingerprinter is not known here."""
    request = Request(url)
    return fingerprint(request), RFPDupeFilter().request_fingerprint(request).encode()
