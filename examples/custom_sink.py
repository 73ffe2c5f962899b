"""A custom sink: one file per item, named by its key, so that an item that is written again replaces its file.

Run it: python examples/custom_sink.py
"""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from silkline.errors import SinkUnavailable
from silkline.sinks import Record, Sink, ThreadedSink, record_of


class FilePerItem:
    """Blocking code: ThreadedSink runs it in a thread and provides the async interface."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, records: Sequence[Record]) -> None:
        """Return when all records are on disk. Their requests are completed only after that."""
        try:
            for record in records:
                self.put(record)
        except OSError as error:  # the worker stops claiming and retries with the same records
            raise SinkUnavailable(f"{self.folder} cannot be written: {error.strerror}") from None

    def put(self, record: Record) -> None:
        draft = self.folder / f".{record.key}.new"
        with draft.open("w") as file:
            json.dump({"url": record.url, **record.item}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / f"{record.key}.json")  # atomic
        directory = os.open(self.folder, os.O_RDONLY)
        os.fsync(directory)  # makes the new name durable
        os.close(directory)

    def close(self) -> None:
        print(f"{len(list(self.folder.glob('*.json')))} items in {self.folder}/")


async def main() -> None:
    sink: Sink = ThreadedSink(FilePerItem(Path("books")))
    page = "https://books.example/emma"
    await sink.write([record_of("5f3a-0", page, {"title": "Emma"}), record_of("5f3a-1", page, {"title": "Emma II"})])
    await sink.write([record_of("5f3a-1", page, {"title": "Emma, volume 2"})])  # the page was retried
    await sink.close()


if __name__ == "__main__":
    asyncio.run(main())
    print(Path("books/5f3a-1.json").read_text())
