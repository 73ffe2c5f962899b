"""The many ways in which a project of scrapy-redis names its server, as one address."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from scrapy.settings import BaseSettings

from silkline.core.errors import ConfigError

PARTS = {"REDIS_URL": "url", "REDIS_HOST": "host", "REDIS_PORT": "port", "REDIS_DB": "db"}
_IGNORED = ("encoding", "decode_responses", "retry_on_timeout", "max_connections", "redis_cls", "errors", "protocol")
"""Options of redis-py about which Silkline's own connections have their own mind."""
_PASSED = ("socket_timeout", "socket_connect_timeout", "socket_keepalive", "health_check_interval", "client_name")


def read_address(settings: BaseSettings) -> str | None:
    """The server's address for `Frontier.open`; None, for the embedded server, when the project names none.

    REDIS_URL, REDIS_HOST, REDIS_PORT and REDIS_DB go before what REDIS_PARAMS says.
    """
    given = settings.get("REDIS_PARAMS") or {}
    try:
        params = dict(given)
    except (TypeError, ValueError):
        raise ConfigError(f"REDIS_PARAMS must be a dict, got {type(given).__name__}") from None
    params.update({part: settings.get(name) for name, part in PARTS.items() if settings.get(name)})
    url, cluster = params.pop("url", None), _is_cluster(params.get("redis_cls"))
    if not url and not any(params.get(part) for part in ("host", "port", "db", "unix_socket_path")):
        return None
    options = _options(params)
    if not url:
        url = _compose(params)
    if not isinstance(url, str):
        raise ConfigError(f"REDIS_URL must be a string such as redis://localhost:6379/0, got {url!r}")
    if cluster and "+cluster" not in url:
        url = url.replace("://", "+cluster://", 1)
    return url + (("&" if "?" in url else "?") + urlencode(options) if options else "")


def _compose(params: dict[str, Any]) -> str:
    if params.get("unix_socket_path"):
        return f"unix://{_login(params)}{params['unix_socket_path']}?db={params.get('db') or 0}"
    scheme = "rediss" if params.get("ssl") else "redis"
    host = str(params.get("host") or "localhost")
    place = f"[{host}]" if ":" in host else host
    return f"{scheme}://{_login(params)}{place}:{params.get('port') or 6379}/{params.get('db') or 0}"


def _login(params: dict[str, Any]) -> str:
    user, password = params.get("username"), params.get("password")
    if not user and not password:
        return ""
    return f"{quote(str(user or ''), safe='')}:{quote(str(password or ''), safe='')}@"


def _options(params: dict[str, Any]) -> dict[str, Any]:
    """What goes behind the question mark."""
    known = ("host", "port", "db", "username", "password", "ssl", "unix_socket_path")
    options: dict[str, Any] = {}
    for name, value in params.items():
        if name in _PASSED or (name.startswith("ssl_") and isinstance(value, str | int)):
            options[name] = value
        elif name not in known and name not in _IGNORED:
            raise ConfigError(
                f"REDIS_PARAMS has {name!r}, which Silkline cannot pass on; put it into REDIS_URL if it can"
            )
    return {name: value for name, value in options.items() if value is not None}


def _is_cluster(cls: Any) -> bool:
    return "Cluster" in (cls if isinstance(cls, str) else getattr(cls, "__name__", ""))
