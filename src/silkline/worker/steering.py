"""How a handler steers: not errors, but words it can raise."""

from __future__ import annotations

from silkline.core.verdict import check_after


class Drop(Exception):
    """Raised by a handler: nothing of this page is wanted. It counts as done, and none of its items and links are kept."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class RetryLater(Exception):
    """Raised by a handler: fetch this page again *after* seconds. It costs an attempt; without *after* the backoff decides."""

    def __init__(self, after: float | None = None, why: str = "the handler asked for it") -> None:
        super().__init__(why)
        if after is not None:
            check_after(after)
        self.after = after
        self.why = why
