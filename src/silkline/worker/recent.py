"""What was lately met: a memory that is bounded, and forgets after a while."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Generic, TypeVar

SECONDS = 300.0

T = TypeVar("T", bound=Hashable)


class Recent(Generic[T]):
    """Two generations: when the younger has *most* or is old, the elder is forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: set[T] = set()
        self._old: set[T] = set()
        self._turn = time.monotonic() + SECONDS

    def __contains__(self, one: T) -> bool:
        return one in self._young or one in self._old

    def add(self, one: T) -> None:
        if len(self._young) >= self._most or time.monotonic() > self._turn:
            self._old, self._young = self._young, set()
            self._turn = time.monotonic() + SECONDS
        self._young.add(one)

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()
