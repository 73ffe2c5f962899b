"""A shard on a one-node cluster, spoken to script by script."""

from __future__ import annotations

import itertools

from silkline.core.request import fingerprint
from silkline.core.url import parse
from silkline.frontier.commands import Offer
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.plan import Plan
from silkline.frontier.script import load
from silkline.frontier.seen import member
from silkline.frontier.settings import Settings


class Shard:
    """Calls scripts as a client does, but hands their replies out as they are."""

    def __init__(self, client, crawl, clock, **settings):
        self.client = client
        self.clock = clock
        self.plan = Plan(CrawlKeys(crawl), Settings(**settings))
        [self.keys] = self.plan.shards
        self._calls = itertools.count(1)
        fields = [part for pair in self.plan.settings.shard_fields().items() for part in pair]
        self.founded = self.run("found", *fields)

    @property
    def root(self):
        return self.keys.root

    def run(self, name, *arguments, call=None, key=None):
        """One call; *call* is (slot, number), a new one unless given."""
        script = load(name)
        prelude = [self.clock()] if script.takes_clock else []
        if script.takes_call:
            prelude += call or ("client:0", next(self._calls))
        return self.client.eval(script.source, 1, key or self.root, *prelude, *arguments)

    def send(self, command, call=None):
        """The same with a `Command`; the reply undecoded."""
        reply = self.run(command.script.name, *command.args, call=call, key=command.keys[0])
        return reply[0] if command.script.name == "enqueue" else reply

    def offer(self, url, options="", record=None):
        address = parse(url)
        mark = member(fingerprint(address, seed=self.plan.settings.seed), self.plan.settings.seen.kind)
        return Offer(0, url, 0, mark, address.host, options, record or address.path)

    def get(self, name):
        """A field of the ledger."""
        value = self.client.hget(f"{self.root}:ledger", name)
        return None if value is None else int(value)

    def dump(self):
        """Every key of the shard but the kept replies, byte for byte; of the ledger all but statistics."""
        names = [name for name in self.client.scan_iter(f"{self.root}:*", count=1000) if b":once:" not in name]
        return {name: self.client.dump(name) for name in names if not name.endswith(b":ledger")} | self._ledger()

    def _ledger(self):
        fields = self.client.hgetall(f"{self.root}:ledger")
        for name in (b"duplicates", b"turned_away", b"late", b"mark_at", b"time"):
            fields.pop(name, None)
        return {f"{self.root}:ledger".encode(): fields} if fields else {}
