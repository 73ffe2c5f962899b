"""Known requests: what this process has lately offered, so that it need not offer it again.

Most links of a site stand on most of its pages. The memory is bounded, and forgets after a while, so that a request that
was forgotten on purpose is found again; the frontier has the last word.
"""

from __future__ import annotations

import time

MOST = 50_000
SECONDS = 300.0


class Known:
    """Two generations: when the younger is full or old, the elder is forgotten.

    It knows identities, and where nothing but the URL makes the identity, URLs as they were written: most duplicates are
    told without a fingerprint.
    """

    def __init__(self) -> None:
        self._young: set[bytes | str] = set()
        self._old: set[bytes | str] = set()
        self._turn = time.monotonic() + SECONDS

    def __contains__(self, identity: bytes | str) -> bool:
        return identity in self._young or identity in self._old

    def add(self, identity: bytes | str) -> None:
        if len(self._young) >= 2 * MOST or time.monotonic() > self._turn:
            self._old, self._young = self._young, set()
            self._turn = time.monotonic() + SECONDS
        self._young.add(identity)

    def forget(self) -> None:
        """What was offered was not taken: offer everything again."""
        self._young.clear()
        self._old.clear()
