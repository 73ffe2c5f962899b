"""Who may look, who may act, and what a browser is allowed to do with our pages."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request

from silkline.core.errors import ConfigError

COOKIE = "silkline_session"
SESSION = 12 * 3600
"""Seconds after which one signs in again."""
SHORTEST_TOKEN = 16
LONGEST_NAME = 40
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
    """Who asks. *csrf* is what a form must bring back; None where a browser does not sign in by itself."""

    name: str
    may_act: bool
    csrf: str | None


class Guard:
    """Knows the token, and everything made from it. Without a token everybody may look and nobody may act."""

    def __init__(
        self,
        token: str | None,
        *,
        read_only: bool = False,
        hosts: Sequence[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ConfigError(
                f"the dashboard's token must have {SHORTEST_TOKEN} characters or more: openssl rand -hex 16 makes one"
            )
        self._token = token
        self._read_only = read_only or token is None
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._clock = clock
        self._secret = hashlib.sha256(b"silkline dashboard 1 " + (token or secrets.token_hex()).encode()).digest()

    @property
    def asks(self) -> bool:
        """Whether one must sign in."""
        return self._token is not None

    def knows_host(self, name: str) -> bool:
        """Whether this is a name of ours: another one may be a hostile site's, led to our address."""
        if self._hosts is None:
            return True
        return name in self._hosts or name == "localhost" or _is_address(name)

    def visitor(self, request: Request) -> Visitor | None:
        """None for one who must sign in first."""
        if not self.asks:
            return Visitor("anybody", may_act=False, csrf=None)
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
        told = base64.urlsafe_b64decode(name).decode()
        return Visitor(told, not self._read_only, self._sign(f"csrf {session}"))

    def new_session(self, name: str) -> str:
        """The value of the cookie of one who has shown the token."""
        told = base64.urlsafe_b64encode(clean_name(name).encode()).decode()
        session = f"{told}.{int(self._clock())}.{secrets.token_urlsafe(12)}"
        return f"{session}.{self._sign(f'session {session}')}"

    def _sign(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


def asked_name(request: Request) -> str | None:
    """The name or address under which we are asked for; None for what is neither."""
    try:
        parts = urlsplit(f"//{request.headers.get('host', '')}")
        name, _ = parts.hostname or "", parts.port  # which raises where it is no number
    except ValueError:
        return None
    return name


def is_from_here(request: Request) -> bool:
    """Whether a form was sent by one of our own pages, as far as the browser tells; programs tell nothing."""
    origin = request.headers.get("origin")
    if origin is not None:
        parts = _split(origin)
        return parts is not None and parts.netloc == request.headers.get("host")
    return request.headers.get("sec-fetch-site", "none") in ("same-origin", "none")


def is_genuine(visitor: Visitor, given: str) -> bool:
    """Whether a form is one that we made for this visitor."""
    return visitor.csrf is None or hmac.compare_digest(visitor.csrf.encode(), given.encode())


def clean_name(name: str) -> str:
    kept = "".join(letter for letter in name if letter.isprintable()).strip()
    return kept[:LONGEST_NAME] or "operator"


def local_path(path: str) -> str:
    """Where to go after signing in: a page of ours, whatever is asked for."""
    parts = _split(path)
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain and parts and not parts.scheme and not parts.netloc else ""


def _split(url: str) -> SplitResult | None:
    """None for what is no URL at all, such as one that ends within the brackets of an address."""
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
