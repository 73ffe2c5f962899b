"""Outcome: how one attempt ended, before anything of it is stored."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from silkline.core.lease import Lease
from silkline.core.verdict import Verdict
from silkline.sinks.sink import Record


class Outcome(msgspec.Struct, frozen=True):
    """A lease, the verdict on it, and the items of its page, which are stored first."""

    lease: Lease
    verdict: Verdict
    records: Sequence[Record] = ()
