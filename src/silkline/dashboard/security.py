"""Authentication, CSRF protection and security headers of the dashboard."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request

from silkline.errors import ConfigError

log = logging.getLogger(__name__)

COOKIE = "silkline_session"
SESSION = 12 * 3600
"""Lifetime of a session in seconds."""
SHORTEST_TOKEN = 16
LEAST_LETTERS = 6
"""Number of different characters that a token must have."""
LONGEST_NAME = 40
FREE_TRIES, LONGEST_PAUSE, FORGET_AFTER = 5, 60.0, 600.0
"""Wrong tokens of an address before it must wait; longest wait, and time until wrong tokens are forgotten, in seconds."""
MOST_ADDRESSES = 10_000
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Visitor(NamedTuple):
    """The user of a request. *csrf* is the token that forms must contain; None if the browser sends no credentials by itself."""

    name: str
    may_act: bool
    csrf: str | None
    session: str = ""
    """Id by which the session can be ended, if the user signed in with a cookie."""


class WrongTokens:
    """Slows down clients that guess tokens: after several wrong tokens, an address must wait before the next attempt."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tries: dict[str, tuple[int, float]] = {}

    def wait(self, address: str) -> float:
        """Return the seconds until this address may try again; 0 if it may try now."""
        _, until = self._tries.get(address, (0, 0.0))
        return max(0.0, until - self._clock())

    def forget(self, address: str) -> None:
        """Reset the count of an address that sent the right token."""
        self._tries.pop(address, None)

    def note(self, address: str) -> None:
        """Count a wrong token of this address."""
        now = self._clock()
        count, until = self._tries.pop(address, (0, 0.0))
        count = 1 if now > until + FORGET_AFTER else count + 1
        pause = min(LONGEST_PAUSE, 2.0 ** (count - FREE_TRIES)) if count >= FREE_TRIES else 0.0
        self._tries[address] = count, now + pause
        if len(self._tries) > MOST_ADDRESSES:
            del self._tries[next(iter(self._tries))]
        if count == 1 or pause:
            log.warning(
                "dashboard: wrong token from %s, %d in a row; next attempt allowed in %.0f s", address, count, pause
            )


class Authenticator:
    """Checks tokens, sessions and host names. Without a token, the dashboard is read-only for everyone."""

    def __init__(
        self,
        token: str | None,
        *,
        read_only: bool = False,
        hosts: Sequence[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if token is not None and (len(token) < SHORTEST_TOKEN or len(set(token)) < LEAST_LETTERS):
            raise ConfigError(
                f"the dashboard's token must have at least {SHORTEST_TOKEN} characters, {LEAST_LETTERS} of them different; "
                "to make one: openssl rand -hex 16"
            )
        self._token = token
        self._read_only = read_only or token is None
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._clock = clock
        self.wrong_tokens = WrongTokens()
        self._secret = hashlib.sha256(b"silkline dashboard 1 " + (token or secrets.token_hex()).encode()).digest()

    @property
    def asks(self) -> bool:
        """Whether users must sign in."""
        return self._token is not None

    def knows_host(self, name: str) -> bool:
        """Whether this host name is allowed. Other names may belong to a hostile site that uses DNS rebinding."""
        if self._hosts is None:
            return True
        return name in self._hosts or name == "localhost" or _is_address(name)

    def visitor(self, request: Request) -> Visitor | None:
        """Return the user of a request; None if the user must sign in."""
        if not self.asks:
            return Visitor("anonymous", may_act=False, csrf=None)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return Visitor("token", not self._read_only, None) if self.is_token(given.strip()) else None
        if scheme.lower() == "basic":
            return self._basic(given)
        return self._session(request.cookies.get(COOKIE, ""))

    def is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def _basic(self, given: str) -> Visitor | None:
        try:
            name, _, password = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        if not self.is_token(password):
            return None
        name = clean_name(name)
        return Visitor(name, not self._read_only, self._sign(f"csrf basic {name}"))

    def _session(self, cookie: str) -> Visitor | None:
        session, _, signature = cookie.rpartition(".")
        if not session or not hmac.compare_digest(signature.encode(), self._sign(f"session {session}").encode()):
            return None
        name, issued, _ = session.split(".")
        if not 0 <= self._clock() - int(issued) <= SESSION:
            return None
        user = base64.urlsafe_b64decode(name).decode()
        digest = hashlib.sha256(session.encode()).hexdigest()[:32]
        return Visitor(user, not self._read_only, self._sign(f"csrf {session}"), digest)

    def new_session(self, name: str) -> str:
        """Return the session cookie of a user who sent the token."""
        user = base64.urlsafe_b64encode(clean_name(name).encode()).decode()
        session = f"{user}.{int(self._clock())}.{secrets.token_urlsafe(12)}"
        return f"{session}.{self._sign(f'session {session}')}"

    def _sign(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


def address_of(request: Request) -> str:
    """Return the client's address; for IPv6 the /64 network, because one client can use many addresses."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network(f"{address}/64", strict=False)) if address.version == 6 else host


def asked_name(request: Request) -> str | None:
    """Return the host name or address of the Host header; None if it is invalid."""
    try:
        parts = urlsplit(f"//{request.headers.get('host', '')}")
        name, _ = parts.hostname or "", parts.port  # `port` raises if it is not a number
    except ValueError:
        return None
    return name


def is_from_here(request: Request) -> bool:
    """Whether a form was sent by a page of this dashboard, according to browser headers; programs send none."""
    origin = request.headers.get("origin")
    if origin is not None:
        parts = _split(origin)
        return parts is not None and parts.netloc == request.headers.get("host")
    return request.headers.get("sec-fetch-site", "none") in ("same-origin", "none")


def is_genuine(visitor: Visitor, given: str) -> bool:
    """Whether the CSRF token of a form belongs to this user."""
    return visitor.csrf is None or hmac.compare_digest(visitor.csrf.encode(), given.encode())


def clean_name(name: str) -> str:
    kept = "".join(letter for letter in name if letter.isprintable()).strip()
    return kept[:LONGEST_NAME] or "operator"


def local_path(path: str) -> str:
    """Return *path* if it is a page of this dashboard, else "": no redirect to another site after signing in."""
    parts = _split(path)
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain and parts and not parts.scheme and not parts.netloc else ""


def _split(url: str) -> SplitResult | None:
    """Split a URL; None if it is invalid, such as one with an unclosed bracket."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
