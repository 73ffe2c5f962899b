"""Downloads: requests whose bodies become files. They are fetched like pages; their bodies go to the store and not to a parser."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from silkline.core.request import FILE_META, Request
from silkline.errors import ConfigError, FetchError, LocalFailure, ResponseTooLarge
from silkline.fetch.fetcher import BodyWriter, Fetcher, Response
from silkline.sinks.downloads.store import Files, FileStore, Spool, StoredFile, check_folder, check_size, open_store

MOST_TYPE = 200
"""Characters of a content type that are stored."""


class DownloadPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored in the meta of a download: the folder of its file, and its own limit on the size."""

    to: str = ""
    max_bytes: int | None = None

    @classmethod
    def of(cls, request: Request) -> DownloadPlan:
        """Return the plan of a request. Raises `FetchError` for one that `Page.download` has not made."""
        try:
            return msgspec.convert(request.meta[FILE_META], cls).checked()
        except (msgspec.ValidationError, ConfigError) as error:
            raise FetchError(f"its meta is not that of a download: {error}", "bad_request") from None

    def checked(self) -> DownloadPlan:
        """Return it. Raises `ConfigError` if it cannot be carried out."""
        check_folder(self.to)
        if self.max_bytes is not None:
            check_size(self.max_bytes)
        return self

    def into(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Return *meta* with this plan."""
        return {**meta, FILE_META: msgspec.to_builtins(self)}


class Downloads:
    """The downloads of a worker, and the store of their files, which is opened for the first one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._store: FileStore | None = None
        self._opening = asyncio.Lock()

    async def fetch(self, request: Request, fetcher: Fetcher, user_agent: str) -> Response:
        """Fetch a file. The response has it as its *file*. Raises `ResponseTooLarge` if it is larger than it may be."""
        plan = DownloadPlan.of(request)
        most = plan.max_bytes or self._files.max_bytes
        if request.timeout is None:
            request = msgspec.structs.replace(request, timeout=self._files.timeout)
        spool = Spool(most, await self._open())
        try:
            if download := getattr(fetcher, "download", None):
                response: Response = await download(request, user_agent=user_agent, into=spool)
                return response
            response = await fetcher.fetch(request, user_agent=user_agent, cut=most + 1)
            return _spooled(response, spool)
        except ResponseTooLarge as error:
            spool.discard()
            raise ResponseTooLarge(f"{error}; larger files need a higher max_bytes") from None
        except BaseException:
            spool.discard()
            raise

    async def store(self, request: Request, response: Response) -> StoredFile:
        """Store the file of a response. Returns when it is durable; raises `LocalFailure` if it cannot be stored now."""
        plan = DownloadPlan.of(request)
        store = await self._open()
        spool = response.file
        if not isinstance(spool, Spool):  # middleware has made the response
            spool = Spool(plan.max_bytes or self._files.max_bytes, store)
            spool.add(response.body)
        try:
            path = await store.in_thread(store.keep, spool, plan.to)
        finally:
            spool.discard()
        declared = (response.headers.get("content-type") or "")[:MOST_TYPE]
        return StoredFile(response.url, path, spool.sha256, declared, spool.size)

    async def _open(self) -> FileStore:
        async with self._opening:
            if self._store is None:
                try:
                    self._store = await asyncio.to_thread(open_store, self._files)
                except ConfigError as error:
                    raise LocalFailure(str(error), "files") from None
            return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _spooled(response: Response, into: BodyWriter) -> Response:
    """Return a response that is in memory with its body as its file."""
    into.add(response.body)
    return msgspec.structs.replace(response, file=into)


def file_of(page: Any) -> StoredFile:
    """Handle a download that names no handler: its file is an item."""
    found: StoredFile = page.file
    return found
