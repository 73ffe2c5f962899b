"""Sinks store items in files, databases, object stores and Redis, pages in archives, and downloaded files."""

from silkline.sinks.archive.exchange import Exchange
from silkline.sinks.downloads.store import Files, StoredFile
from silkline.sinks.sink import Record, Sink, ThreadedSink, Writer, open_sink, record_of

__all__ = ["Exchange", "Files", "Record", "Sink", "StoredFile", "ThreadedSink", "Writer", "open_sink", "record_of"]
