"""Lines of JSON, each batch a Zstandard frame."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import zstandard

from silkline.sinks.destination import Destination
from silkline.sinks.jsonl import JsonlWriter, Packing, scan_members


def _scan(view: mmap.mmap, start: int) -> Iterator[tuple[int, int, bool]]:
    return scan_members(view, start, zstandard.ZstdDecompressor().decompressobj, (zstandard.ZstdError,))


def open_writer(destination: Destination) -> JsonlWriter:
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    return JsonlWriter(destination, Packing(compressor.compress, _scan))
