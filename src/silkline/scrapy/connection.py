"""A client of redis-py for users' own code: what ``scrapy_redis.connection`` gave them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from silkline.frontier.address import read_url
from silkline.frontier.clients import open_sync
from silkline.frontier.embedded import EmbeddedServer
from silkline.frontier.wishes import embedded_in

R = TypeVar("R")

SETTINGS_PARAMS_MAP = {
    "REDIS_URL": "url",
    "REDIS_HOST": "host",
    "REDIS_PORT": "port",
    "REDIS_DB": "db",
    "REDIS_ENCODING": "encoding",
    "REDIS_DECODE_RESPONSES": "decode_responses",
    "REDIS_MAX_CONNECTIONS": "max_connections",
}
REDIS_CLS = redis.Redis
DEFAULT_PARAMS = {"socket_timeout": 30, "socket_connect_timeout": 30, "encoding": "utf-8"}
AWAY = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError, redis.exceptions.ClusterError)
"""What a server says that stops, starts or hands over."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

_PLACES = ("url", "host", "port", "db", "unix_socket_path", "redis_cls", "connection_pool")
_shares: dict[str, EmbeddedServer] = {}
"""Embedded servers by directory. They are held until the process ends, for nobody tells when a client is done with."""


def get_redis_from_settings(settings: BaseSettings) -> Any:
    """A client for the server that the settings name, or for the embedded one.

    REDIS_PARAMS may hold any option of redis-py, and ``redis_cls``, a class or its path. REDIS_URL, REDIS_HOST,
    REDIS_PORT, REDIS_DB, REDIS_ENCODING, REDIS_DECODE_RESPONSES and REDIS_MAX_CONNECTIONS go before it.
    """
    given = settings.getdict("REDIS_PARAMS")
    given.update({part: settings.get(name) for name, part in SETTINGS_PARAMS_MAP.items() if settings.get(name)})
    if not any(given.get(place) for place in _PLACES):
        given["url"] = "embedded:.silkline"
    if isinstance(given.get("redis_cls"), str):
        given["redis_cls"] = load_object(given["redis_cls"])
    return get_redis(**{**DEFAULT_PARAMS, **given})


from_settings = get_redis_from_settings


def get_redis(**kwargs: Any) -> Any:
    """A client: *redis_cls* (``redis.Redis`` unless it is given) made of the *url* if there is one, and of all other options."""
    cls, url = kwargs.pop("redis_cls", None), kwargs.pop("url", None)
    if not url:
        return (cls or REDIS_CLS)(**kwargs)
    directory = embedded_in(url)
    target = read_url(_share(directory).url if directory else url)
    if target.kind != "plain" and cls is None:
        return open_sync(target)  # as the frontier does; redis-py has no such addresses
    return (cls or REDIS_CLS).from_url(target.url, **kwargs)


def _share(directory: str) -> EmbeddedServer:
    if directory not in _shares:
        _shares[directory] = EmbeddedServer.join(directory)
    return _shares[directory]


def persistently(call: Callable[[], R], complain: Callable[[Exception], None]) -> R:
    """Call until the server answers, in a thread that may wait. *complain* is told once that it is away.

    A call whose answer got lost is made again.
    """
    pause, complained = FIRST_PAUSE, False
    while True:
        try:
            return call()
        except AWAY as error:
            if not complained:
                complain(error)
                complained = True
        for share in _shares.values():
            share.ensure()
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
