"""Sinks store items in files, databases, object stores and Redis."""

from silkline.sinks.sink import Record, Sink, ThreadedSink, Writer, open_sink, record_of

__all__ = ["Record", "Sink", "ThreadedSink", "Writer", "open_sink", "record_of"]
