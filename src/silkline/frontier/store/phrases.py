"""The phrases of records: byte strings that many records have in common, which `record` stores as one or two bytes.

The table is the same everywhere, so a record can be read without anything else: on another machine, after an import, years later.
An entry is never changed, moved or removed, because stored records refer to it by its place. New ones are added at the end; an
earlier version refuses records with them.

A code is a byte that is rare in msgpack and UTF-8, or MARK and a byte. A byte of the record that is itself a code follows MARK.
Codes are whole bytes, and not bits as those of zlib, so that a server with list-compress-depth still finds what the records of a
queue have in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

MARK = b"\xc1"
"""The only byte that msgpack never uses. UTF-8 does not use it either."""

SINGLES: tuple[bytes, ...] = (
    b"\xde\x00\x03\xa1t\x82\xa1m",  # a map of three fields: meta with values of the spider and a referer, …
    b"\xde\x00\x03\xa1t\x81\xa1m",  # … without a referer, …
    b"\xde\x00\x03\xa1t\x81\xa1r",  # … and with only a referer
    b"\xde\x00",  # any other map of fields
    b"\x81\xa1\x00\x92\xa1o\x92",  # an instance of a class
    b"\x81\xa1\x00\x92",  # another value with a type
    b"\xa1d\x01\xa1n",  # depth and callback
    b"\xa1d\x02\xa1n",
    b"\xa1d\x03\xa1n",
    b"https://www.",
    b"https://",
)
"""What most records have, as the bytes 0xf5 to 0xff. In msgpack these are the numbers from -11 to -1."""


def _key(*names: str) -> list[bytes]:
    """Return names of at most 31 bytes as msgpack has them, as keys and values."""
    return [bytes([0xA0 + len(name)]) + name.encode() for name in names]


PAIRS: tuple[bytes, ...] = (
    # Parts of class paths, of callbacks and of addresses
    *(b".items.", b"Item", b"Product", b"Article", b".spiders.", b".models.", b"parse_", b"http://", b".html", b".jpg"),
    *(b"/product", b"/category/", b"/images/", b"?page=", b".com/", b"&page="),
    *_key("parse_item", "parse_product", "parse_page", "parse_detail", "parse_details", "parse_list", "parse_category"),
    *_key("parse", "_callback", "errback", "handle_error"),
    # Other fields of a request
    b"\xa1m\xa4POST", b"\xa1s\xa4http", b"\xa1f\xc3", b"\xa1d\x01", b"\xa1d\x02", b"\xa1d\x03", b"\xa1k\x81",
    b"\xa1e\xa7errback",
    *_key("Content-Type", "application/json", "X-Requested-With", "XMLHttpRequest", "Accept", "User-Agent"),
    *_key("Accept-Language", "Authorization", "Referer", "Origin", "Cookie"),
    b"application/x-www-form-urlencoded", b"Mozilla/5.0 (", b"Bearer ",
    # Types of values
    *_key("tuple", "datetime", "date", "Decimal", "defaultdict", "OrderedDict", "frozenset", "timedelta", "UUID"),
    # Keys that Scrapy and its extensions set or read in meta
    *_key("item", "download_timeout", "download_slot", "download_latency", "download_maxsize", "proxy", "cookiejar"),
    *_key("retry_times", "max_retry_times", "redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons"),
    *_key("dont_redirect", "dont_retry", "dont_cache", "dont_merge_cookies", "dont_obey_robotstxt"),
    *_key("handle_httpstatus_list", "handle_httpstatus_all", "is_start_request", "allow_offsite", "verbatim_url"),
    *_key("link_text", "rule", "referrer_policy", "give_up_log_level", "_auth_proxy", "bindaddress", "playwright"),
    *_key("playwright_page_methods", "playwright_include_page", "playwright_context", "splash", "zyte_api"),
    *_key("zyte_api_automap", "impersonate", "autothrottle_dont_adjust_delay"),
    # Fields of items: frequent ones of zyte-common-items and of schema.org, and in snake case
    *_key("url", "id", "name", "title", "description", "price", "currency", "category", "categories", "brand", "sku"),
    *_key("gtin", "mpn", "quantity", "unit", "weight", "offers", "seller", "shop", "domain"),
    *_key("availability", "in_stock", "stock", "images", "image", "image_url", "image_urls", "main_image", "rating"),
    *_key("ratings", "reviews", "review_count", "aggregate_rating", "breadcrumbs", "features", "color", "size"),
    *_key("variants", "regular_price", "sale_price", "discount", "product_id", "product_url", "canonical_url", "link"),
    *_key("links", "headline", "author", "authors", "date_published", "date_modified", "published", "published_at"),
    *_key("created_at", "updated_at", "article_body", "body", "text", "content", "summary", "tags", "keywords"),
    *_key("language", "country", "address", "city", "state", "street", "postal_code", "zip_code", "latitude"),
    *_key("longitude", "location", "phone", "telephone", "email", "website", "company", "department", "salary"),
    *_key("job_title", "date_posted", "first_name", "last_name", "username", "isbn", "publisher", "year", "model"),
    *_key("source", "source_url", "start_url", "parent", "level", "page", "page_number", "position", "query"),
    *_key("search", "index", "count", "total", "type", "status", "code", "value", "data", "metadata", "attributes"),
)  # fmt: skip
"""Other frequent strings, each stored as MARK and a byte."""

_firsts = [bytes([byte]) for byte in range(0x100 - len(SINGLES), 0x100)]
_seconds = [bytes([byte]) for byte in range(0x100) if bytes([byte]) not in (MARK, *_firsts)]
CODES = {
    **dict(zip(SINGLES, _firsts, strict=True)),
    **{phrase: MARK + second for phrase, second in zip(PAIRS, _seconds, strict=False)},
    **{byte: MARK + byte for byte in (MARK, *_firsts)},
}
"""The code of each phrase, and of each byte that would be taken for a code."""
PHRASES = {code: phrase for phrase, code in CODES.items()}


def _longest_of(phrases: Iterable[bytes]) -> re.Pattern[bytes]:
    """Return a pattern that finds the longest of *phrases*. It is grouped by first bytes, which makes it faster."""
    ordered = sorted(phrases, key=lambda phrase: (phrase[:1], -len(phrase)))
    groups = [
        re.escape(first) + b"(?:" + b"|".join(re.escape(phrase[1:]) for phrase in group) + b")"
        for first, group in groupby(ordered, key=lambda phrase: phrase[:1])
    ]
    return re.compile(b"|".join(groups))


ANY_PHRASE = _longest_of(CODES)
ANY_CODE = re.compile(MARK + b".?|[" + _firsts[0] + b"-\xff]", re.DOTALL)
