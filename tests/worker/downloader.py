"""Workers that download files, one after the other: ``downloader.py REDIS CRAWL START FOLDER OUT``.

Three of them are killed: in the middle of a file, before it gets its name, and after that. Prints how each of them ended.
"""

import json
import os
import signal
import sys
from pathlib import Path

from silkline import Crawl, Politeness
from silkline.runtime.event_loop import run_async
from silkline.sinks.downloads import store
from silkline.worker.crawl.crawl import FetchOptions
from silkline.worker.options import WorkerOptions
from silkline.worker.process.process import work

MIDDLE, BEFORE, AFTER = 700_001, 1_002, 1_003
"""Sizes of the files at which it is killed."""


def die_once(marks, moment):
    mark = marks / f"died {moment}"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def arm(marks):
    put, write = store.FolderStore.put, store.Spool.write

    def deadly_put(self, file, path, size):
        if size == BEFORE:
            die_once(marks, "before")
        put(self, file, path, size)
        if size == AFTER:
            die_once(marks, "after")

    def deadly_write(self):
        write(self)
        if 0 < self.size < self.most and self.most == MIDDLE:
            die_once(marks, "middle")

    store.FolderStore.put, store.Spool.write = deadly_put, deadly_write


def make(name, start, folder):
    crawl = Crawl(
        name,
        start,
        politeness=Politeness(delay=0, concurrency=1),
        fetching=FetchOptions(allow_private=True),
        files=folder,
    )

    @crawl.handler
    def parse(page):
        yield page.download("/middle", to="a", max_bytes=MIDDLE)
        yield page.download(["/before", "/after"], to="a")

    return crawl


def work_in_a_fork(redis, name, start, folder, out):
    """Run a worker in a fork of this process, which has imported everything; returns how it ended."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        arm(Path(folder).parent)
        options = WorkerOptions(concurrency=1, lease=1.0)
        run_async(work(make(name, start, folder), redis, [out], options=options))
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    codes = []
    while not codes or (codes[-1] < 0 and len(codes) < 8):
        codes.append(work_in_a_fork(*sys.argv[1:]))
    print(json.dumps(codes))
