"""Named sessions: cookies that all workers of a crawl share, and logins that are done once for all of them.

The state of a session is stored with the crawl. A worker reads it again after a second, and stores it when a response has changed its
cookies. A login has a fencing token, so that what belongs to an earlier login cannot replace what a later one has stored.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from silkline.core.request import Request
from silkline.core.scope import Scope
from silkline.errors import ConfigError, FetchError, LockLost, LoginFailed, StoreUnavailable
from silkline.fetch.cookies.jar import Cookie, CookieJar
from silkline.fetch.cookies.pool import SLOWED, Sessions
from silkline.fetch.cookies.requests import store_cookies, with_cookies
from silkline.fetch.fetcher import Response
from silkline.frontier.frontier import Frontier
from silkline.frontier.locks.locks import Hold
from silkline.frontier.verbs.sessions import MOST_SESSIONS, MOST_STATE_BYTES, SessionReply
from silkline.worker.crawl.crawl import Crawl, LoginHook
from silkline.worker.crawl.handlers import Fetch
from silkline.worker.crawl.page import Links, Page
from silkline.worker.redirect import REDIRECTS, redirected

log = logging.getLogger(__name__)

REFRESH = 1.0
"""Seconds after which a worker reads the state of a session again."""
LOCK_TTL, LOCK_WAIT = 30.0, 60.0
"""Seconds for which a worker that has died keeps others from logging in, and for which a page waits for a login by another worker."""
LOGIN_LIMIT = 300.0
"""Seconds that a login may take."""
FIRST_REST, LONGEST_REST = 30.0, 3600.0
"""Seconds after a failed login until the next one. They double with each failure."""
SAME_FOR = 600.0
"""Seconds for which a state is not stored again if only the expiry of its cookies has changed."""
TRIES = 10
MOST_ENDERS = 1_000
_BYTES = MOST_STATE_BYTES - 1024


class SessionState(msgspec.Struct, omit_defaults=True):
    """What is stored of a session."""

    cookies: list[Cookie] = []
    logged_in: bool = False
    failures: int = 0
    """Logins that have failed in a row."""
    retry_at: float = 0.0
    """Unix time before which no worker logs in."""
    retired: int = 0
    """How often it was replaced by a new one, because a site blocked it."""


_decoder = msgspec.msgpack.Decoder(SessionState)
_encoder = msgspec.msgpack.Encoder()


class NamedSession:
    """What this worker knows of a session."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jar = CookieJar(most_bytes=_BYTES)
        self.state = SessionState()
        self.version = 0
        self.login = 0
        """The fencing token of its login; 0 if there was none."""
        self.read_at = float("-inf")
        self.stored_at = float("-inf")
        self.stored: list[tuple[Any, ...]] = []
        """The cookies that are stored, without their expiry."""
        self.turn = asyncio.Lock()
        """One task of this worker logs in or stores at a time."""
        self.proven = 0
        """The token of the last login with which this worker has fetched a page."""
        self._doubted = 0
        """The token of the login that a page has called ended, if none was fetched since."""
        self._enders: OrderedDict[str, None] = OrderedDict()
        """The URLs of pages that have ended a login."""

    def is_logged_in(self) -> bool:
        return self.state.logged_in

    def prove(self, login: int) -> None:
        """Note that a page was fetched with a login. One that was begun before the last login says nothing of it."""
        if login == self.login:
            self.proven, self._doubted = login, 0

    def believes(self, url: str, login: int) -> bool:
        """Return whether a login has ended because a page says so.

        Some pages always say so, because the user may not see them. So a page that has ended a login before is believed only if no other
        page was fetched since it or another one said so.
        """
        if url in self._enders and self._doubted != login:
            self._doubted = login
            return False
        self._enders[url] = None
        if len(self._enders) > MOST_ENDERS:
            self._enders.popitem(last=False)
        return True

    @property
    def proxy_key(self) -> str:
        """The name by which its proxy is chosen: another one when a site has blocked it."""
        return f"{self.name}.{self.state.retired}" if self.state.retired else self.name


class NamedSessions:
    """The named sessions of a worker."""

    def __init__(self, frontier: Frontier, crawl: Crawl) -> None:
        self._frontier = frontier
        self._crawl = crawl
        self._login = None if crawl.fetching.is_offline else crawl.login_hook
        self._links = Links(crawl.scope)
        self._pool = crawl.fetching.session if isinstance(crawl.fetching.session, Sessions) else None
        self._known: OrderedDict[str, NamedSession] = OrderedDict()

    async def fetch(self, request: Request, fetch: Fetch) -> Response:
        """Fetch with the cookies of the request's session, which is logged in first if the crawl has a login."""
        pool = self._pool if request.session is None else None
        name = pool.name_for(request) if pool else str(self._crawl.session_of(request))
        session = self._session(name)
        if time.monotonic() - session.read_at > REFRESH:
            await self._read(session)
        if self._login is not None and not session.is_logged_in():
            async with session.turn:
                await self._log_in(session, self._login, fetch)
        login, retired = session.login, session.state.retired
        sent = msgspec.structs.replace(request, session=session.proxy_key)
        response = await fetch(with_cookies(sent, session.jar))
        if response.headers.get("set-cookie") is not None:
            with suppress(StoreUnavailable):  # the page counts; the cookies are stored with the next change
                async with session.turn:
                    await self._change(session, login, lambda: _store_cookies(session, retired, request, response))
        if self._login is not None and self._has_ended(self._login, request, response):
            if session.believes(request.url, login):
                rest = 0.0 if session.proven == login else self._frontier.internal.now + FIRST_REST
                async with session.turn:
                    await self._change(session, login, lambda: _log_out(session, rest))
            raise FetchError(
                f"the login of the session {name!r} has ended; the page is fetched again after another one", "login"
            )
        session.prove(login)
        if pool and (why := pool.why_blocked(response, lambda: self._page(request, response))):
            async with session.turn:
                await self._change(session, login, lambda: _retire(session, retired))
            if response.status not in SLOWED:
                raise FetchError(
                    f"the site blocks the session {name!r} ({why}), which is replaced by a new one", "blocked"
                )
        return response

    def _session(self, name: str) -> NamedSession:
        session = self._known.get(name)
        if session is None:
            session = self._known[name] = NamedSession(name)
            if len(self._known) > MOST_SESSIONS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(name)
        return session

    def _has_ended(self, login: LoginHook, request: Request, response: Response) -> bool:
        if login.ended is None:
            return response.status == 401
        return bool(login.ended(self._page(request, response)))

    def _page(self, request: Request, response: Response) -> Page:
        return Page(request, response, request.handler or "", self._crawl.handlers, self._links)

    # ── the stored state ──

    async def _read(self, session: NamedSession) -> None:
        _take(session, await self._frontier.internal.session_state(session.name, session.version))

    async def _change(self, session: NamedSession, login: int, change: Callable[[], None]) -> None:
        """Change the state, unless another login has begun since then: repeat the change with what other workers have stored."""
        for _ in range(TRIES):
            if session.login != login:
                return
            change()
            if _is_stored(session):
                return
            if await self._store(session, login):
                return
        log.debug("the state of the session %r changes too often to be stored", session.name)

    async def _store(self, session: NamedSession, login: int) -> bool:
        """Store the state as this worker has it. Returns False if another worker was first; then the session has its state."""
        session.state.cookies = list(session.jar)
        packed = _encoder.encode(session.state)
        reply = await self._frontier.internal.session_state(session.name, session.version, login, packed)
        if reply.stored:
            session.version, session.login = reply.version, login
            session.read_at = session.stored_at = time.monotonic()
            session.stored = _essence(session)
        else:
            _take(session, reply)
        return reply.stored

    # ── logging in ──

    async def _log_in(self, session: NamedSession, login: LoginHook, fetch: Fetch) -> None:
        """Log in, unless another task or worker has done it meanwhile. Raises `LoginFailed`."""
        if session.is_logged_in():
            return
        await self._read(session)
        self._check_rest(session)
        if session.is_logged_in():
            return
        lock = self._frontier.lock(f"login of {session.name}", ttl=LOCK_TTL)
        hold = await lock.acquire(wait=LOCK_WAIT)
        if hold is None:
            raise LoginFailed(f"another worker logs in to the session {session.name!r} for a long time", 5.0)
        try:
            await self._read(session)
            self._check_rest(session)
            if not session.is_logged_in():
                await self._log_in_under(hold, session, login, fetch)
        finally:
            with suppress(LockLost, StoreUnavailable):  # then it expires
                await hold.release()

    def _check_rest(self, session: NamedSession) -> None:
        rest = session.state.retry_at - self._frontier.internal.now
        if rest > 0 and not session.is_logged_in():
            raise LoginFailed(
                f"the login of the session {session.name!r} failed, and is tried again in {rest:.0f} s", rest
            )

    async def _log_in_under(self, hold: Hold, session: NamedSession, login: LoginHook, fetch: Fetch) -> None:
        visitor = LoginVisitor(session.name, self._crawl, fetch, session.proxy_key)
        try:
            async with asyncio.timeout(LOGIN_LIMIT):
                done = login.function(visitor)
                if inspect.isawaitable(done):
                    await done
            hold.check()
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises
            raise await self._failed(session, hold.token, error) from None
        session.jar, session.state = visitor.jar, SessionState(logged_in=True, retired=session.state.retired)
        await self._store(session, hold.token)
        log.info("logged in to the session %r", session.name)

    async def _failed(self, session: NamedSession, token: int, error: Exception) -> LoginFailed:
        failures = session.state.failures + 1
        rest = min(FIRST_REST * 2.0 ** min(failures - 1, 20), LONGEST_REST)
        session.jar.clear()
        session.state = SessionState(failures=failures, retry_at=self._frontier.internal.now + rest)
        await self._store(session, token)
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        message = f"the login of the session {session.name!r} failed: {why:.500}"
        log.warning("%s. Its pages wait, and none of them is buried; the next login is in %.0f s", message, rest)
        return LoginFailed(message, rest)


def _take(session: NamedSession, reply: SessionReply) -> None:
    """Take over what is stored."""
    session.read_at = time.monotonic()
    if reply.version == session.version and not reply.state:
        return
    session.version, session.login = reply.version, reply.login
    session.state = _decoder.decode(reply.state) if reply.state else SessionState()
    session.jar = CookieJar(most_bytes=_BYTES)
    for cookie in session.state.cookies:
        session.jar.add(cookie)
    session.stored, session.stored_at = _essence(session), time.monotonic()


def _essence(session: NamedSession) -> list[tuple[Any, ...]]:
    cookies = [(one.name, one.value, one.domain, one.path, one.subdomains, one.secure) for one in session.jar]
    return [*sorted(cookies), (session.is_logged_in(), session.state.retired)]


def _is_stored(session: NamedSession) -> bool:
    return _essence(session) == session.stored and time.monotonic() - session.stored_at < SAME_FOR


def _store_cookies(session: NamedSession, retired: int, request: Request, response: Response) -> None:
    """Store the cookies of a response, unless the session was replaced since the request."""
    if session.state.retired == retired:
        store_cookies(session.jar, request, response)


def _log_out(session: NamedSession, retry_at: float) -> None:
    """End a login. A login with which no page was fetched is followed by another one later, not at once."""
    session.jar.clear()
    session.state = SessionState(retired=session.state.retired, retry_at=retry_at)


def _retire(session: NamedSession, retired: int) -> None:
    """Replace a session by a new one, unless another worker has done it."""
    if session.state.retired == retired:
        session.jar.clear()
        session.state = SessionState(retired=retired + 1)


class LoginVisitor:
    """The argument of a login: fetches pages with the cookies of the new session. *name* is that of the session."""

    def __init__(self, name: str, crawl: Crawl, fetch: Fetch, proxy_key: str) -> None:
        self.name = name
        self._proxy_key = proxy_key
        self.jar = CookieJar(most_bytes=_BYTES)
        self._crawl = crawl
        self._fetch = fetch
        self._links = Links(Scope(stay="anywhere"))
        self._headers = crawl.headers

    async def fetch(self, target: str | Request | list[Request] | None) -> Page:
        """Return the page of a URL or a request, as ``page.form(…).submit(…)`` returns it. Redirects are followed.

        The delay of the crawl passes after each request. Raises `FetchError` if there is no response; a status such as 403 is no error.
        """
        if not isinstance(target, str | Request):
            raise ConfigError(f"a login fetches a URL or a request, got {target!r}")
        request = Request(target) if isinstance(target, str) else target
        for _ in range(self._crawl.fetching.max_redirects + 1):
            response = await self._visit(request)
            location = response.headers.get("location")
            if location is None or response.status not in REDIRECTS:
                return Page(request, response, self._crawl.handlers.first, self._crawl.handlers, self._links)
            request = redirected(request, response.status, location)
        raise FetchError(
            f"more than {self._crawl.fetching.max_redirects} redirects, the last one to {request.url:.500}", "login"
        )

    async def _visit(self, request: Request) -> Response:
        if self._headers:
            request = msgspec.structs.replace(request, headers=self._headers.for_request(request))
        request = msgspec.structs.replace(request, session=self._proxy_key)
        response = await self._fetch(with_cookies(request, self.jar))
        if response.headers.get("set-cookie") is not None:
            store_cookies(self.jar, request, response)
        await asyncio.sleep(
            self._crawl.politeness.delay
        )  # the next one is another request to the host, or the page itself
        return response
