"""Download slots: a request with ``meta["download_slot"]`` waits in the queue of that name, instead of that of its host.

Scrapy's downloader writes the slot that it has chosen itself, the host name, into the meta of every request. Redirects, retries and
links that copy the meta have it too. It is marked, so that only slots that the project has set count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from silkline.core.request import MAX_SLOT
from silkline.core.url import is_host

SLOT = "download_slot"

_NOT_IN_A_HOST = re.compile(r"[^a-z0-9.-]+")


class AutomaticSlot(str):
    """A slot that Scrapy's downloader has chosen, not the project."""

    __slots__ = ()


def mark_automatic(meta: MutableMapping[str, Any], chosen: object) -> None:
    """Mark the slot in *meta* if it is the one that the downloader has *chosen*."""
    if meta.get(SLOT) == chosen and type(chosen) is str:
        meta[SLOT] = AutomaticSlot(chosen)


def is_automatic(meta: Mapping[str, Any]) -> bool:
    return isinstance(meta.get(SLOT), AutomaticSlot)


def queue_of(meta: Mapping[str, Any], url: str) -> str | None:
    """Return the name of the queue that the project has chosen for a request; None for that of its host."""
    slot = meta.get(SLOT)
    if slot is None or isinstance(slot, AutomaticSlot) or slot == urlsplit(url).hostname:
        return None
    return queue_name(str(slot))


@lru_cache(maxsize=1024)
def queue_name(slot: str) -> str:
    """Return a slot as the frontier can store it: as it is if it could be a host, else with a hash that keeps it unique."""
    if len(slot) <= MAX_SLOT and is_host(slot):
        return slot
    digest = blake2b(slot.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    name = f"{_NOT_IN_A_HOST.sub('-', slot.lower()).strip('.-')[:60]}-{digest}"
    return name if is_host(name) else f"slot-{digest}"
