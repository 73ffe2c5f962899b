"""A shard on a one-node cluster, spoken to script by script."""

from __future__ import annotations

import itertools

from silkline.core.url import fingerprint, parse
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.record import Offer, member, stored
from silkline.frontier.store.settings import Settings
from silkline.frontier.transport.command import load


class Shard:
    """Calls scripts as a client does, but hands their replies out as they are."""

    def __init__(self, client, crawl, clock, **settings):
        self.client = client
        self.clock = clock
        self.layout = CrawlLayout(CrawlKeys(crawl), Settings(**settings))
        [self.keys] = self.layout.shards
        self._calls = itertools.count(1)
        fields = [part for pair in self.layout.settings.shard_fields().items() for part in pair]
        self.founded = self.run("init_shard", *fields)

    @property
    def root(self):
        return self.keys.root

    def run(self, name, *arguments, call=None, key=None, relied=""):
        """One call; *call* is (slot, number), a new one unless given; *relied* are such names."""
        script = load(name)
        prelude = [self.clock()] if script.takes_clock else []
        if script.takes_call:
            prelude += call or ("client:0", next(self._calls))
        if script.takes_acknowledged:
            prelude.append(relied)
        own = self.keys.leases if script.keys == ("leases_key",) else self.keys.ledger
        return self.client.eval(script.source, 1, key or own, *prelude, *arguments)

    def send(self, command, call=None):
        """The same with a `Command`; the reply undecoded."""
        reply = self.run(command.script.name, *command.args, call=call, key=command.keys[0])
        return reply[0] if command.script.name == "enqueue" else reply

    def offer(self, url, options="", record=None):
        address = parse(url)
        mark = member(fingerprint(address, seed=self.layout.settings.seed), self.layout.settings.seen.kind)
        return Offer(0, url, 0, mark, address.host, options, record or address.path[1:])

    def stored(self, rest):
        """A record that is enqueued now, without a leading slash, as it is stored."""
        return stored(rest, self.clock() / 1000)

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
