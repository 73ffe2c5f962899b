"""A batch as one object: its name, which is never used twice, and its bytes."""

from __future__ import annotations

import gzip
import itertools
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from silkline.sinks.item import Record, line_of


class Batches:
    """Names are ``TIME-PROCESS-NUMBER.jsonl.gz``: in order of time, and no two processes share one."""

    def __init__(self, *, with_key: bool) -> None:
        self._with_key = with_key
        self._process = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)

    def name(self) -> str:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        return f"{moment}-{self._process}-{next(self._numbers)}.jsonl.gz"

    def pack(self, records: Sequence[Record]) -> bytes:
        return gzip.compress(b"".join(line_of(record, with_key=self._with_key) for record in records), 6)
