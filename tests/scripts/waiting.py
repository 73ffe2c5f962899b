"""Groups and their calls, as scripts see them."""

from __future__ import annotations

from silkline.core.request import Request
from silkline.frontier.store import record as codec
from silkline.frontier.verbs.enqueue import enqueue_command

START = 1_800_000_000_000
HOUR = 3_600_000
GROUP = "report/=all"


def call_record(url, **meta):
    """The record of a call, as it is sent."""
    name = url.partition("://")[2].partition("/")[0]
    request = Request(url, handler=name, meta=meta)
    return codec.without_slash(codec.encode(request, codec.address_of(request)))


def open_group(shard, *, fingerprint="", due=0, lenient=0, until=START + HOUR, **options):
    record = call_record(f"https://{GROUP}")
    return shard.run("open_group", GROUP, "report", fingerprint, 0, due, lenient, until, record, **options).decode()


def join(shard, letters="", following="", batch="b", **options):
    return shard.run("join_group", GROUP, batch if letters else "", letters, following, **options).decode()


def report(shard, *ended, batch="b"):
    """Report calls by their numbers and outcomes, such as "0d"."""
    return shard.run("report_ended", *(word for one in ended for word in (GROUP, batch, one[:-1], one[-1])))


def watch(shard, *names, until=START + HOUR, batch="b"):
    return shard.run("watch", until, GROUP, batch, *names).decode()


def taken(shard, *reported):
    """The notes of a shard."""
    return sorted(note.decode() for note in shard.run("take_ended", 100, *reported)[1:])


def enqueue(shard, *urls, **meta):
    """Enqueue calls past the seen filter."""
    offers = [shard.offer(url, "0 0 d -", call_record(url, **meta)) for url in urls]
    return shard.send(enqueue_command(shard.keys, offers))


def claim(shard, most=10, policy="none"):
    """The tokens of leased calls."""
    return [token.decode() for token in shard.run("claim", most, 60_000, 0, policy)[3::2]]
