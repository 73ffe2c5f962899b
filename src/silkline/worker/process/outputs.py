"""Outputs belong to the crawl: a run stores where items go, and workers that join use the same outputs."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from silkline.errors import ConfigError, SinkUnavailable
from silkline.frontier.frontier import Frontier
from silkline.frontier.store.run_options import Output, RunOptions
from silkline.frontier.transport.redis_url import without_password
from silkline.sinks.destination import ARCHIVES, LOCAL_FILES, folder_of, read_out, without_secrets
from silkline.sinks.sink import open_sink
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.feeds.query_name import has_secret
from silkline.worker.process.process import open_sinks

log = logging.getLogger("silkline.worker")

STDOUT = "-"
NOT_KEPT = "no -o: items are counted, not kept; -o items.jsonl keeps them, -o - prints them"
ONLY_ARCHIVED = "no -o for items: pages are archived, but items are only counted; -o items.jsonl keeps them"
CREDENTIALS = (
    "AWS_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY", "AWS_CONTAINER_CREDENTIALS",
    "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "AZURE_STORAGE", "AZURE_CLIENT",
)  # fmt: skip
"""Prefixes of the environment variables from which object stores read their credentials."""


def lack_of_items(outs: Sequence[str]) -> str:
    """Return the warning that none of these outputs stores items; an archive does not. Empty if one of them does."""
    if any(read_out(out).kind not in ARCHIVES for out in outs):
        return ""
    return ONLY_ARCHIVED if outs else NOT_KEPT


def describe(out: str) -> Output:
    """An output as it is stored with the crawl: without its secrets, and for a file with the name of its machine."""
    place, hidden, kind = without_secrets(out)
    if kind == "stdout":
        return Output(STDOUT, machine=machine())
    return Output(place, hidden, machine() if kind in LOCAL_FILES else "")


def machine() -> str:
    return socket.gethostname()[:100]


def options_of(crawl: Crawl, outs: Sequence[str]) -> RunOptions:
    """What a run stores with its crawl."""
    sinks = tuple(_name(make) for make in crawl.sink_makers)
    return RunOptions(
        outputs=tuple(describe(out) for out in outs),
        sinks=sinks,
        allow_private=crawl.fetching.allow_private,
        feeds=tuple(feed for feed in crawl.feeds if not has_secret(feed)),
        until_idle=crawl.until_idle,
    )


def usable(stored: Iterable[Output], crawl: str) -> list[str]:
    """The stored outputs, as this process can write to them; `ConfigError` if it cannot."""
    return [_usable(output, crawl) for output in stored]


def _usable(output: Output, crawl: str) -> str:
    if output.out == STDOUT:
        raise ConfigError(
            f"the crawl {crawl!r} prints its items where `silkline run` was started (-o -), which this worker cannot do: "
            "give it its own output with -o"
        )
    if output.machine and (output.machine != machine() or not folder_of(output.out).is_dir()):
        raise ConfigError(
            f"the crawl {crawl!r} stores its items in {output.out}, a file on the machine {output.machine}, which this "
            f"worker on {machine()} cannot write to. Give this worker its own output with -o, or start the crawl with one "
            "that all machines can reach, such as s3://…, postgresql://… or redis:KEY"
        )
    in_cloud = read_out(output.out).kind == "objects"
    if output.hidden and in_cloud and not any(name.startswith(CREDENTIALS) for name in os.environ):
        raise ConfigError(_without(output, crawl))
    return output.out


def _without(output: Output, crawl: str) -> str:
    return (
        f"the crawl {crawl!r} stores its items in {output.out}, and its secrets ({', '.join(output.hidden)}) are not stored with "
        "the crawl: give this worker the full address with -o, or set the environment variables of that store"
    )


def explain_refusal(error: ConfigError, stored: Iterable[Output], crawl: str) -> ConfigError:
    """Why a stored output cannot be opened here, with a note about secrets that were not stored."""
    secret = next((output for output in stored if output.hidden), None)
    return ConfigError(f"{error}. Note that {_without(secret, crawl)}") if secret else error


async def join_crawl(crawl: Crawl, outs: Sequence[str], frontier: Frontier) -> list[str]:
    """Return the outputs of a worker that joins: its own, or those of the crawl. Differences are logged as warnings."""
    stored = await frontier.admin.run_options()
    _check_sinks(crawl, stored)
    _take_on_private(crawl, stored)
    _take_on_feeds(crawl, stored)
    if not outs:
        return await _stored_outs(crawl, stored, frontier.url)
    own = [describe(out) for out in outs]
    if stored.outputs is not None and set(own) != set(stored.outputs):
        log.warning(
            "this worker stores its items in %s; the crawl %r stores its items in %s",
            listed(own),
            crawl.name,
            listed(stored.outputs) or "no output",
        )
    return list(outs)


async def _stored_outs(crawl: Crawl, stored: RunOptions, redis: str | None) -> list[str]:
    if not crawl.sink_makers and (lack := lack_of_items([output.out for output in stored.outputs or ()])):
        log.warning("%s", lack)
    if not stored.outputs:
        return []
    outs = await _opened(stored.outputs, crawl.name, redis)
    log.info("items go to %s, the output stored with the crawl", listed(stored.outputs))
    return outs


def _check_sinks(crawl: Crawl, stored: RunOptions) -> None:
    own = {_name(make) for make in crawl.sink_makers}
    missing = [name for name in stored.sinks if name not in own]
    if missing:
        raise ConfigError(
            f"the crawl {crawl.name!r} uses @crawl.sink {', '.join(missing)}, which this worker's file does not define, so "
            "its items would be lost: start this worker with the same file"
        )


def _take_on_private(crawl: Crawl, stored: RunOptions) -> None:
    """Allow private addresses if the run does; log a warning if only this worker does."""
    own = crawl.fetching.allow_private
    if stored.allow_private and not own:
        allow_private(crawl)
        log.info("private addresses are allowed, because the crawl was started with --allow-private")
    elif own and stored.allow_private is False:
        log.warning(
            "this worker fetches private addresses, though the crawl %r does not allow them and its other workers refuse them; "
            "to allow them for all workers: silkline run --allow-private, or silkline crawl set %s --allow-private",
            crawl.name,
            crawl.name,
        )


def _take_on_feeds(crawl: Crawl, stored: RunOptions) -> None:
    """Feed the crawl as its run does, and stay as long."""
    more = [feed for feed in stored.feeds if feed not in crawl.feeds]
    if more:
        crawl.feeds += more
        log.info("this worker reads %s too, because the crawl was started with it", ", ".join(more))
    if crawl.until_idle is None:
        crawl.until_idle = stored.until_idle


def allow_private(crawl: Crawl) -> None:
    crawl.fetching = msgspec.structs.replace(crawl.fetching, allow_private=True)


def listed(outputs: Iterable[Output]) -> str:
    return ", ".join("standard output" if output.out == STDOUT else str(output) for output in outputs)


def _name(make: object) -> str:
    return str(getattr(make, "__name__", type(make).__name__))


async def share_options(
    crawl: Crawl, outs: Sequence[str], frontier: Frontier, say: Callable[[str], object]
) -> list[str]:
    """Store the options of a run for all workers. Without new ones, those of the previous run still apply."""
    stored = await frontier.admin.run_options()
    before = [output for output in stored.outputs or () if output.out != STDOUT]
    if not outs and before:
        outs = await _opened(before, crawl.name, frontier.url)
        say(f"items go to {listed(before)}, as in the previous run; use -o to change this")
    elif outs and before and {describe(out) for out in outs} != set(before):
        say(f"items go to {listed(map(describe, outs))} from now on; until now they went to {listed(before)}")
    keep_permission(crawl, stored, say)
    await frontier.admin.set_run_options(options_of(crawl, outs))
    return list(outs)


def keep_permission(crawl: Crawl, stored: RunOptions, say: Callable[[str], object]) -> None:
    """Allow private addresses if the previous run did."""
    if stored.allow_private and not crawl.fetching.allow_private:
        allow_private(crawl)
        say(
            "private addresses are allowed, as in the previous run; "
            f"to forbid them: silkline crawl set {crawl.name} --no-allow-private"
        )


def check_overwrite(outs: Sequence[str]) -> None:
    """Raise `ConfigError` unless all outputs can be emptied; standard output needs not be."""
    if not outs:
        raise ConfigError("--overwrite needs an output: name it with -o")
    for out in outs:
        destination = read_out(out)
        if not destination.can_be_emptied and destination.kind != "stdout":
            raise ConfigError(
                f"--overwrite cannot empty {without_password(out.partition('?')[0])}: it works for files and for tables in SQLite "
                "that Silkline created. Empty it yourself, or leave --overwrite out"
            )


async def empty_outputs(outs: Sequence[str]) -> None:
    """Delete the items in all outputs."""
    for out in outs:
        if read_out(out).can_be_emptied:
            sink = await asyncio.to_thread(open_sink, out)
            try:
                await sink.empty()
            finally:
                await sink.close()


async def _opened(stored: Sequence[Output], crawl: str, redis: str | None) -> list[str]:
    """Return stored outputs, after checking that they can be opened."""
    outs = usable(stored, crawl)
    try:
        with suppress(SinkUnavailable):  # the worker waits for it
            async with open_sinks(outs, redis):
                pass
    except ConfigError as error:
        raise explain_refusal(error, stored, crawl) from None
    return outs
