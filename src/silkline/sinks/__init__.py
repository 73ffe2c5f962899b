"""Sinks store items in files, databases, object stores and Redis, and pages in archives."""

from silkline.sinks.archive.exchange import Exchange
from silkline.sinks.sink import Record, Sink, ThreadedSink, Writer, open_sink, record_of

__all__ = ["Exchange", "Record", "Sink", "ThreadedSink", "Writer", "open_sink", "record_of"]
