"""A sink of your own: every item a file, named by its key, so that an item which comes again replaces itself.

Run it: python examples/custom_sink.py
"""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from silkline.core.errors import SinkUnavailable
from silkline.sinks import Record, Sink, ThreadedSink, record_of


class FilePerItem:
    """Plain code that may block: ThreadedSink gives it a thread of its own and the async face of a sink."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, records: Sequence[Record]) -> None:
        """All records are on the disk when this returns; then, and not before, their requests are completed."""
        try:
            for record in records:
                self.put(record)
        except OSError as error:  # the worker stops claiming, and tries again with the same records
            raise SinkUnavailable(f"{self.folder} cannot be written: {error.strerror}") from None

    def put(self, record: Record) -> None:
        draft = self.folder / f".{record.key}.new"
        with draft.open("w") as file:
            json.dump({"url": record.url, **record.item}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / f"{record.key}.json")  # as a whole, or not at all
        directory = os.open(self.folder, os.O_RDONLY)
        os.fsync(directory)  # the new name is on the disk too
        os.close(directory)

    def close(self) -> None:
        print(f"{len(list(self.folder.glob('*.json')))} items in {self.folder}/")


async def main() -> None:
    sink: Sink = ThreadedSink(FilePerItem(Path("books")))
    page = "https://books.example/emma"
    await sink.write([record_of("5f3a-0", page, {"title": "Emma"}), record_of("5f3a-1", page, {"title": "Emma II"})])
    await sink.write([record_of("5f3a-1", page, {"title": "Emma, volume 2"})])  # the page was tried again
    await sink.close()


if __name__ == "__main__":
    asyncio.run(main())
    print(Path("books/5f3a-1.json").read_text())
