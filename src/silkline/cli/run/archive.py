"""``silkline run --from-warc``: run the handlers of a crawl over archived pages."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape

from silkline.cli import screen
from silkline.cli.options.work import WorkOptions
from silkline.errors import ConfigError
from silkline.fetch.archive.archive_fetcher import most_block
from silkline.fetch.archive.index import ArchiveReport, build_index
from silkline.ops.parsing import plural
from silkline.sinks.destination import ARCHIVES, read_out
from silkline.worker.crawl.archived import index_in, replay, start_in_archive
from silkline.worker.crawl.crawl import Crawl


@contextmanager
def archived_pages(
    crawl: Crawl, archives: Sequence[Path], options: WorkOptions, *, quiet: bool
) -> Iterator[Path | None]:
    """Index the archives and let the crawl read its pages from them. Yields the index; None without archives."""
    if not archives:
        yield None
        return
    _check(options)
    with tempfile.TemporaryDirectory(prefix="silkline-index-") as folder:
        index = index_in(Path(folder), crawl.name, archives)
        report = build_index(archives, index, most_block(crawl.fetching.limits))
        replay(crawl, index)
        known = asyncio.run(start_in_archive(crawl, index))
        _show(crawl, archives, report, known=known, quiet=quiet)
        yield index


def _check(options: WorkOptions) -> None:
    others = {"--feed": options.feed, "--cache": options.cache and options.cache.cache}
    for name in [name for name, given in others.items() if given]:
        raise ConfigError(f"--from-warc and {name} exclude each other: the pages of a run come from the archive")
    for out in options.out:
        if read_out(out).kind in ARCHIVES:
            raise ConfigError(
                f"-o {out} archives what is fetched, and --from-warc fetches nothing; name an output for items"
            )


def _show(crawl: Crawl, archives: Sequence[Path], report: ArchiveReport, *, known: bool, quiet: bool) -> None:
    for damage in report.damages:
        screen.remark(f"[yellow]damaged:[/] {escape(screen.printable(damage))}")
    if report.damaged > len(report.damages):
        screen.remark(f"[yellow]and {report.damaged - len(report.damages):,} more damaged parts[/]")
    if not report.urls:
        raise ConfigError(f"no response to a GET request can be read in {', '.join(map(str, archives))}")
    if not quiet:
        names = escape(screen.printable(", ".join(path.name for path in archives)))
        screen.remark(f"pages come from {names}: {plural(report.urls, 'URL')}, {plural(report.pages, 'HTML page')}")
        if not known:
            first = escape(crawl.handlers.first)
            screen.remark(f"no start URL is in the archive, so the handler {first} gets all its HTML pages")
