"""The hooks into Scrapy's engine: everything that the plugin uses and that has no public name.

`check_engine` runs when a spider opens, before anything is patched: if the internals of Scrapy have changed, the spider does not
open, and the error names what is missing. The docstring of every other function names the internals it relies on. They exist in
Scrapy 2.13 to 2.19; the tests run them with each of these versions.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol

import scrapy
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.python import global_object_name
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from silkline.errors import ConfigError

log = logging.getLogger(__name__)

MIDDLEWARES = "silkline.scrapy.middlewares"
ADDONS = 'ADDONS = {"silkline.scrapy.Addon": 100}'
COMMANDS = "scrapy.commands."
"""The package of Scrapy's command-line tools."""

NEEDED = {
    "the engine": (
        "_slot",
        "_start",
        "_handle_downloader_output",
        "needs_backout",
        "scraper",
        "downloader.handlers",
        "downloader.slots",
    ),
    "the engine's slot": ("closing", "close", "nextcall.schedule", "scheduler"),
    "the scraper": ("handle_spider_error", "call_spider_async", "spidermw.middlewares"),
}
"""Attributes that the hooks use, by the object that has them."""
OUTPUT_HOOKS = ("_process_spidermw_output_async", "_process_spidermw_output")
"""The scraper has one of them: the first since Scrapy 2.14, the second before."""
SEND = ("download_request_async", "download_request")
"""The downloader's handlers have one of them: the first since Scrapy 2.14, the second before."""
CLOSE_SPIDER = ("close_spider_async", "close_spider")
"""The engine has one of them: the first since Scrapy 2.14, the second before."""

HandleOutput = Callable[[Any, Request], Deferred[None]]
CallSpider = Callable[..., Awaitable[Any]]


def check_engine(crawler: Crawler) -> None:
    """Raise `ConfigError` if Scrapy's engine lacks something that the hooks use.

    Call it while the scheduler opens: the engine has made its slot by then.
    """
    try:
        engine = crawler.engine
    except RuntimeError:  # Scrapy 2.14 and newer; before, it is None
        engine = None
    if engine is None:
        raise ConfigError(
            "Silkline's scheduler opens only in a running crawl: its requests are leased while the engine works on them. To store"
            " requests from another program, push messages to the spider's redis_key, or use silkline.SyncFrontier"
        )
    missing = next(_missing(engine), None)
    if missing is not None:
        raise ConfigError(
            f"Silkline cannot work with Scrapy {scrapy.__version__}: {missing}, which the plugin needs."
            " Install a Scrapy version that this Silkline supports, or a newer Silkline"
        )


def _missing(engine: Any) -> Iterator[str]:
    holders = {
        "the engine": engine,
        "the engine's slot": getattr(engine, "_slot", None),
        "the scraper": getattr(engine, "scraper", None),
    }
    for name, holder in holders.items():
        yield from (f"{name} has no {path}" for path in NEEDED[name] if not _has(holder, path))
    if not any(_has(holders["the scraper"], name) for name in OUTPUT_HOOKS):
        yield f"the scraper has neither {' nor '.join(OUTPUT_HOOKS)}"
    if not any(_has(engine, f"downloader.handlers.{name}") for name in SEND):
        yield f"the downloader's handlers have neither {' nor '.join(SEND)}"
    if not any(_has(engine, name) for name in CLOSE_SPIDER):
        yield f"the engine has neither {' nor '.join(CLOSE_SPIDER)}"


def _has(holder: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(holder, name):
            return False
        holder = getattr(holder, name)
    return True


# ── who runs the crawler ──


def run_by_tool(crawler: Crawler) -> bool:
    """Return whether one of Scrapy's tools runs the spider, and not a crawl: parse, fetch, view, check, bench or shell.

    All but the shell run a `start` of their own: that of the spider's class is a function of the package ``scrapy.commands``.
    The shell starts the engine itself, before it opens a spider, and never calls ``crawler.crawl()``: then
    ``engine.start_time`` is set and ``crawler.crawling`` is False. Call it while the spider is created or opened; later,
    ``crawling`` is also False in a crawl that stops.
    """
    start = getattr(crawler.spidercls, "start", None)
    if str(getattr(start, "__module__", "")).startswith(COMMANDS):
        return True
    return not crawler.crawling and isinstance(getattr(_engine(crawler), "start_time", None), float)


def _engine(crawler: Crawler) -> Any:
    """Return the crawler's engine, or None before it was created, for which Scrapy 2.18 and later raise RuntimeError."""
    try:
        return crawler.engine
    except RuntimeError:
        return None


def abandon_start(crawler: Crawler) -> None:
    """Make Scrapy give up a spider that cannot open. Raise the error afterwards.

    Otherwise Scrapy would close the scraper, the stats and the extensions, which were never opened, and log a traceback for
    each. Relies on ``engine.spider`` and ``engine._slot``: without them, Scrapy closes the downloader only. Without
    ``crawler.spider``, the exit code is 1, also before Scrapy 2.15.
    """
    engine = _engine(crawler)
    if engine is not None:
        engine.spider = engine._slot = None
    crawler.spider = None


# ── the slot: whether the spider is open, and its scheduler ──


def _slot(crawler: Crawler) -> Any:
    """Return the engine's slot while a spider is open, else None. Relies on ``engine._slot``."""
    engine = _engine(crawler)
    return engine._slot if engine is not None else None


def current_scheduler(crawler: Crawler) -> Any:
    """Return the scheduler of the open spider, or None. Relies on ``engine._slot.scheduler``.

    Scrapy 2.19 has a public name for it; earlier versions have not.
    """
    slot = _slot(crawler)
    return slot.scheduler if slot is not None else None


def is_closing(crawler: Crawler) -> bool:
    """Return whether the spider is closing or has closed. May be called in any thread.

    Relies on ``engine._slot.closing``, which is None until the spider begins to close.
    """
    slot = _slot(crawler)
    return slot is None or slot.closing is not None


def wake(crawler: Crawler) -> None:
    """Make the engine ask the scheduler for requests soon. Relies on ``engine._slot.nextcall.schedule()``."""
    if not is_closing(crawler):
        _slot(crawler).nextcall.schedule()


def on_closing(crawler: Crawler, function: Callable[[], None]) -> None:
    """Call *function* when the spider begins to close; the spider closes when its slowest page has ended.

    Replaces ``engine._slot.close``, which the engine calls once to wait for the requests in progress.
    """
    slot = _slot(crawler)
    close = slot.close

    def begin() -> Any:
        function()
        return close()

    slot.close = begin


def close_spider(crawler: Crawler, spider: Spider, reason: str) -> None:
    """Close the spider, unless it is closing.

    Relies on ``engine.close_spider_async(reason=…)``; before Scrapy 2.14 on ``engine.close_spider(spider, reason=…)``.
    """
    if is_closing(crawler):
        return
    engine: Any = crawler.engine
    if hasattr(engine, CLOSE_SPIDER[0]):
        deferred_from_coro(engine.close_spider_async(reason=reason))
    else:
        engine.close_spider(spider, reason=reason)


def fail_process(crawler: Crawler) -> None:
    """Make ``scrapy crawl`` exit with code 1 when the crawler has ended.

    Scrapy has no public way to do this for a spider that has opened. Sets ``crawler.spider`` to None after the engine has stopped:
    ``CrawlerRunner`` then sets ``bootstrap_failed``, from which the commands compute their exit code.
    """

    def forget_spider() -> None:
        crawler.spider = None

    crawler.signals.connect(forget_spider, signals.engine_stopped, weak=False)


def share_the_reactor(crawler: Crawler, call_reactor: Callable[[Callable[[], object]], None]) -> None:
    """Let pages be downloaded while ``start()`` yields many requests.

    Once the downloader is full, the engine reads the rest of ``start()`` in one go, and the reactor does nothing else. The
    scheduler returns requests in batches, so that the downloader is full at once, and no page would arrive before the last start
    request. Here, the reactor has a turn after each of them.

    Replaces ``engine._start``, the iterator over the output of ``start()``. Relies on ``engine.needs_backout()``, which returns
    whether the downloader is full.
    """
    engine: Any = crawler.engine
    start = engine._start

    async def read() -> AsyncIterator[Any]:
        async for output in start:
            yield output
            if engine.needs_backout() and not is_closing(crawler):
                turn: Deferred[None] = Deferred()
                call_reactor(lambda turn=turn: turn.callback(None))  # type: ignore[misc]
                await maybe_deferred_to_future(turn)

    if start is not None:
        engine._start = read()


# ── the way of a request through the engine ──


class Sends(Protocol):
    """What `watch_sends` calls around the download of each request."""

    @property
    def hold_back(self) -> bool:
        """Whether requests may have to wait. If not, `ended` is not called, and `ready` returns None."""

    def ready(self, request: Request) -> Deferred[None] | None:
        """Called when a request reaches its download handler. It is sent when the Deferred fires; at once without one."""

    def ended(self, request: Request) -> None:
        """Called when the download has ended, before the downloader starts the next one of the slot."""


def watch_sends(crawler: Crawler, sends: Sends) -> None:
    """Call *sends* around the download of each request.

    Replaces ``downloader.handlers.download_request_async(request)``, a coroutine function; before Scrapy 2.14
    ``downloader.handlers.download_request(request, spider)``, which returns a Deferred.
    """
    engine: Any = crawler.engine
    handlers = engine.downloader.handlers
    if hasattr(handlers, SEND[0]):
        send = handlers.download_request_async

        async def send_in_turn(request: Request, waiting: Deferred[None] | None) -> Any:
            try:
                if waiting is not None:
                    await maybe_deferred_to_future(waiting)
                return await send(request)
            finally:
                sends.ended(request)

        def send_async(request: Request) -> Any:
            waiting = sends.ready(request)
            return send_in_turn(request, waiting) if sends.hold_back else send(request)

        handlers.download_request_async = send_async
    else:
        send_deferred = handlers.download_request

        def end(outcome: Any, request: Request) -> Any:
            sends.ended(request)
            return outcome

        def send_sync(request: Request, spider: Spider) -> Deferred[Any]:
            waiting = sends.ready(request)
            if waiting is not None:
                sent: Deferred[Any] = waiting.addCallback(lambda _: send_deferred(request, spider))
            else:
                sent = maybeDeferred(send_deferred, request, spider)
            return sent.addBoth(end, request) if sends.hold_back else sent

        handlers.download_request = send_sync


class SlotLimits:
    """Limits how many requests of a download slot are sent at a time, below what the settings allow.

    Relies on ``downloader.slots``, which has a slot by its name, and on the ``concurrency`` of a slot, which the downloader reads each
    time before it sends a request.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler: Any = crawler
        self._limited: dict[str, tuple[Any, int]] = {}
        """The slots that have a limit, with their own concurrency."""

    def set(self, name: str, limit: int | None) -> None:
        """Limit a slot; None removes its limit."""
        slot = self._crawler.engine.downloader.slots.get(name)
        limited, own = self._limited.get(name, (None, 0))
        if limited is not slot or slot is None:
            self._limited.pop(name, None)
            if slot is None:
                return
            own = slot.concurrency
        if limit is not None and limit < own:
            self._limited[name] = slot, own
            slot.concurrency = limit
        elif self._limited.pop(name, None):
            slot.concurrency = own


def watch_downloads(crawler: Crawler, handle: Callable[[HandleOutput, Any, Request], Deferred[None]]) -> None:
    """Call ``handle(original, result, request)`` with everything that the downloader returns.

    *result* is a response, a failure, or another request (a retry, a redirect, the replacement of a middleware).

    Replaces ``engine._handle_downloader_output(result, request)``. Its Deferred fires when the callback, the spider
    middlewares and all item pipelines have finished.
    """
    engine: Any = crawler.engine
    original: HandleOutput = engine._handle_downloader_output

    def handle_output(result: Any, request: Request) -> Deferred[None]:
        return handle(original, result, request)

    engine._handle_downloader_output = handle_output


def watch_callback_errors(crawler: Crawler, note: Callable[[Request, Failure], None]) -> None:
    """Call *note* with each exception that a callback raised and no middleware handled.

    Replaces ``scraper.handle_spider_error(failure, request, …)``.
    """
    engine: Any = crawler.engine
    scraper = engine.scraper
    original = scraper.handle_spider_error

    def handle_error(failure: Failure, request: Request, *args: Any, **kwargs: Any) -> Any:
        note(request, failure)
        return original(failure, request, *args, **kwargs)

    scraper.handle_spider_error = handle_error


def watch_errbacks(crawler: Crawler, note: Callable[[Request, Failure], None]) -> None:
    """Call *note* with each failure for which an errback is missing or raised, before its exception is raised.

    Replaces ``scraper.call_spider_async(result, request, …)``, which is a coroutine function.
    """
    engine: Any = crawler.engine
    scraper = engine.scraper
    original: CallSpider = scraper.call_spider_async

    async def call_errback(failure: Failure, request: Request, *args: Any, **kwargs: Any) -> Any:
        try:
            return await original(failure, request, *args, **kwargs)
        except Exception:
            note(request, failure)
            raise

    def call_spider(result: Any, request: Request, *args: Any, **kwargs: Any) -> Any:
        if type(result) is Failure:
            return call_errback(result, request, *args, **kwargs)
        return original(result, request, *args, **kwargs)

    scraper.call_spider_async = call_spider


def watch_output(
    crawler: Crawler,
    before: Callable[[Any], None],
    failed: Callable[[Failure, Any, Any], None],
    after: Callable[[Any], None],
) -> None:
    """Watch each request or item of a callback while Scrapy takes it.

    Calls ``before(output)``, then ``failed(failure, output, response)`` if Scrapy could not take it, then
    ``after(output)``. Scrapy itself would drop such an output without a word in its stats.

    Replaces the coroutine function ``scraper._process_spidermw_output_async(output, response)``; before Scrapy 2.14 the
    function ``scraper._process_spidermw_output(output, response)``, which returns a Deferred.
    """
    engine: Any = crawler.engine
    scraper = engine.scraper
    if hasattr(scraper, OUTPUT_HOOKS[0]):
        original = scraper._process_spidermw_output_async

        async def process_async(output: Any, response: Any) -> None:
            before(output)
            try:
                await original(output, response)
            except Exception as error:  # noqa: BLE001 - passed on
                failed(Failure(error), output, response)  # type: ignore[no-untyped-call]
            finally:
                after(output)

        scraper._process_spidermw_output_async = process_async
    else:
        process = scraper._process_spidermw_output

        def process_deferred(output: Any, response: Any) -> Any:
            def end(outcome: Any) -> Any:
                after(output)
                return outcome

            before(output)
            return process(output, response).addErrback(failed, output, response).addBoth(end)

        scraper._process_spidermw_output = process_deferred


def has_middlewares(crawler: Crawler) -> bool:
    """Return whether Silkline's middlewares are enabled, as they are with the add-on. Relies on ``scraper.spidermw.middlewares``."""
    engine: Any = crawler.engine
    return any(type(one).__module__ == MIDDLEWARES for one in engine.scraper.spidermw.middlewares)


def warn_without_middlewares(crawler: Crawler) -> None:
    """Warn a project that names Silkline's scheduler but lacks its middlewares."""
    if not has_middlewares(crawler):
        log.warning(
            "Silkline's middlewares are not enabled: responses with an error status count as done, and Retry-After is"
            " ignored. Add %s to the settings",
            ADDONS,
        )


def warn_other_scheduler(crawler: Crawler) -> None:
    """Warn a project that uses Silkline's add-on or spiders, but another scheduler."""
    named, addon = crawler.settings.get("SCHEDULER"), f"add {ADDONS} to the settings"
    own = (crawler.settings.getpriority("SCHEDULER") or 0) > 0 and not str(named).startswith("scrapy_redis.")
    fix = [addon] if not own or not has_middlewares(crawler) else []
    if own:
        fix.append(f"remove SCHEDULER = {named!r}")
    log.warning(
        "The scheduler of %s is %s, which is not Silkline's: requests are not stored in a Silkline crawl, and if this process is"
        " killed, those in progress are lost, as are start messages that were read. To use Silkline's scheduler, %s",
        crawler.spidercls.name,
        global_object_name(type(current_scheduler(crawler))),
        " and ".join(fix),
        extra={"spider": crawler.spider},
    )
