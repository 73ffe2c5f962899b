"""One object per batch in S3, Google Cloud Storage or Azure. At least once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, BinaryIO

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks.destination import Destination
from silkline.sinks.folder import Batches
from silkline.sinks.sink import Record

CLIENT: Any = {"timeout": "20s", "connect_timeout": "5s", "allow_http": True}
"""Plain HTTP is allowed for custom endpoints only; the endpoints of the providers use TLS."""
RETRY: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
"""Few retries here: the worker retries further, stops claiming in the meantime, and logs it."""
_SECRET = re.compile("secret|token|password|key", re.IGNORECASE)


class ObjectStore:
    """A bucket, or a prefix in it. Raises `ConfigError` if it cannot be used, and `SinkUnavailable` if it cannot be used now."""

    def __init__(self, destination: Destination) -> None:
        self._public = destination.public
        self._secrets = [value for name, value in destination.others.items() if value and _SECRET.search(name)]
        try:
            config: Any = dict(destination.others)
            self._store = from_url(destination.url, config=config, client_options=CLIENT, retry_config=RETRY)
        except (BaseError, ValueError, TypeError) as error:
            raise ConfigError(self._say(error)) from None

    def check(self) -> None:
        """List the bucket once to check access. A user who may write but not list is accepted."""
        try:
            next(iter(obstore.list(self._store, chunk_size=1)), None)
        except PermissionDeniedError:
            return
        except (BaseError, OSError) as error:
            is_wrong = isinstance(error, UnauthenticatedError) or "404 Not Found" in str(error)  # no such bucket
            raise (ConfigError if is_wrong else SinkUnavailable)(self._say(error)) from None

    def put(self, name: str, data: bytes | BinaryIO) -> None:
        """Write an object. A file is uploaded in several parts if it is large."""
        try:
            obstore.put(self._store, name, data, use_multipart=False if isinstance(data, bytes) else None)
        except (BaseError, OSError) as error:
            raise SinkUnavailable(self._say(error)) from None

    def has(self, name: str, size: int) -> bool:
        """Whether there is an object of this size. A user who may not ask writes it again."""
        try:
            return bool(obstore.head(self._store, name)["size"] == size)
        except (FileNotFoundError, PermissionDeniedError):
            return False
        except (BaseError, OSError) as error:
            raise SinkUnavailable(self._say(error)) from None

    def _say(self, error: Exception) -> str:
        """Return the first line of the error; the other lines are debug output."""
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        return f"{self._public} cannot be written: {reason}"


class ObjectsWriter:
    """Uploads each batch as ``PREFIX/TIME-PROCESS-NUMBER.jsonl.gz``."""

    def __init__(self, destination: Destination) -> None:
        self._batches = Batches(with_key=destination.with_key)
        self._objects = ObjectStore(destination)
        self._objects.check()

    def write(self, records: Sequence[Record]) -> None:
        self._objects.put(self._batches.name(), self._batches.pack(records))

    def close(self) -> None:
        """Do nothing: no connection is kept open."""


def open_writer(destination: Destination) -> ObjectsWriter:
    return ObjectsWriter(destination)
