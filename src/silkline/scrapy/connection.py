"""redis-py clients for the project's own code, as in ``scrapy_redis.connection``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from silkline.errors import ConfigError, SilklineError, StoreUnavailable
from silkline.frontier.arguments import embedded_in
from silkline.frontier.embedded.server import EmbeddedServer
from silkline.frontier.transport.clients import open_sync
from silkline.frontier.transport.redis_url import read_url
from silkline.runtime.settling import retry_until_reachable
from silkline.scrapy.convert.project import names_silkline, speaks_scrapy_redis

R = TypeVar("R")

SETTINGS_PARAMS_MAP = {
    "REDIS_URL": "url",
    "REDIS_HOST": "host",
    "REDIS_PORT": "port",
    "REDIS_DB": "db",
    "REDIS_USERNAME": "username",
    "REDIS_PASSWORD": "password",
    "REDIS_ENCODING": "encoding",
    "REDIS_DECODE_RESPONSES": "decode_responses",
    "REDIS_MAX_CONNECTIONS": "max_connections",
}
REDIS_CLS = redis.Redis
DEFAULT_PARAMS = {"socket_timeout": 30, "socket_connect_timeout": 30, "encoding": "utf-8"}
UNAVAILABLE_ERRORS = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError, redis.exceptions.ClusterError)
"""Errors of a server that stops, starts or fails over."""

_PLACES = ("url", "host", "port", "db", "unix_socket_path", "redis_cls", "connection_pool")
_embedded_servers: dict[str, EmbeddedServer] = {}
"""Embedded servers by directory. They are kept until the process ends, because redis-py clients need not be closed."""


def redis_params(settings: BaseSettings) -> dict[str, Any]:
    """Return REDIS_PARAMS, which may be a dict or its JSON text."""
    try:
        return settings.getdict("REDIS_PARAMS")
    except (TypeError, ValueError):
        raise ConfigError(f"REDIS_PARAMS must be a dict, got {settings.get('REDIS_PARAMS')!r}") from None


def get_redis_from_settings(settings: BaseSettings) -> Any:
    """Return a client for the server that the settings name.

    The default is localhost:6379, as in scrapy-redis. It is the embedded server if the settings name Silkline's add-on or scheduler and no
    class of scrapy-redis: then the spiders of the project use that server, too.
    REDIS_PARAMS may have any option of redis-py, and ``redis_cls``, a class or its path. REDIS_URL, REDIS_HOST,
    REDIS_PORT, REDIS_DB, REDIS_USERNAME, REDIS_PASSWORD, REDIS_ENCODING, REDIS_DECODE_RESPONSES and REDIS_MAX_CONNECTIONS override it.
    """
    given = redis_params(settings)
    given.update({part: settings.get(name) for name, part in SETTINGS_PARAMS_MAP.items() if settings.get(name)})
    if not any(given.get(place) for place in _PLACES):
        embedded = names_silkline(settings) and not speaks_scrapy_redis(settings)
        given["url"] = "embedded:.silkline" if embedded else "redis://localhost:6379"
    if isinstance(given.get("redis_cls"), str):
        given["redis_cls"] = load_object(given["redis_cls"])
    return get_redis(**{**DEFAULT_PARAMS, **given})


from_settings = get_redis_from_settings


def get_redis(**kwargs: Any) -> Any:
    """Return a client of class *redis_cls* (default ``redis.Redis``) for the *url*, if given, with all other options."""
    cls, url = kwargs.pop("redis_cls", None), kwargs.pop("url", None)
    if not url:
        return (cls or REDIS_CLS)(**kwargs)
    directory = embedded_in(url)
    target = read_url(_embedded_server(directory).url if directory else url)
    if target.kind != "plain" and cls is None:
        return open_sync(target)  # redis-py cannot read the URLs of a cluster or of sentinels
    return (cls or REDIS_CLS).from_url(target.url, **kwargs)


def _embedded_server(directory: str) -> EmbeddedServer:
    if directory not in _embedded_servers:
        _embedded_servers[directory] = EmbeddedServer.join(directory)
    return _embedded_servers[directory]


def call_until_reachable(call: Callable[[], R], complain: Callable[[SilklineError], None]) -> R:
    """Repeat a call of a redis-py client until the server is reachable, and return its result.

    Blocks, so it needs a separate thread. *complain* is called with the first error. A call whose reply was lost is repeated too.
    """
    complained = False

    async def attempt() -> R:
        try:
            return call()
        except UNAVAILABLE_ERRORS as error:
            raise StoreUnavailable(str(error)) from error

    def failed(error: SilklineError) -> None:
        nonlocal complained
        if not complained:
            complain(error)
        complained = True
        for server in _embedded_servers.values():
            server.ensure()

    return asyncio.run(retry_until_reachable(attempt, failed))
