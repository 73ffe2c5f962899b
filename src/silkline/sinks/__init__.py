"""Where items end: files, databases, object stores, Redis."""

from silkline.sinks.item import Record, record_of
from silkline.sinks.sink import Sink, open_sink
from silkline.sinks.threaded import ThreadedSink, Writer

__all__ = ["Record", "Sink", "ThreadedSink", "Writer", "open_sink", "record_of"]
