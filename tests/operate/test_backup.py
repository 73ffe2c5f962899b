"""A crawl is restored from a backup, as docs/how-to/deploy.md describes it, and finished."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from silkline import Bury, Complete, Politeness, SyncFrontier
from tests.servers import Server
from tests.servers_matrix.topologies import command_line

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "deploy.md"
FAST = Politeness(delay=0, concurrency=100)
PAGES = {f"https://books.example/{n}" for n in range(60)}


def rule():
    """The ACL of the user in the guide."""
    return re.search(r"^ACL SETUSER backup .*$", GUIDE.read_text(), re.MULTILINE)[0]


def restored(backup):
    """A server that has read the backup, and writes an append-only file from now on."""
    server = Server("valkey", appendonly="no")
    shutil.copy(backup, server.folder / "dump.rdb")
    server.start()
    with server.client() as client:
        client.config_set("appendonly", "yes")
        while (
            client.info("persistence")["aof_rewrite_in_progress"] or client.info("persistence")["aof_rewrite_scheduled"]
        ):
            time.sleep(0.01)
    server.config["appendonly"] = "yes"
    return server


def test_a_crawl_continues_from_its_backup(tmp_path):
    backup, done = tmp_path / "silkline.rdb", set()
    server = Server("valkey", tcp=True, appendonly="yes").start()
    try:
        with SyncFrontier.open(server.url, crawl="books", politeness=FAST, lease=0.5) as frontier:
            frontier.enqueue(PAGES)
            leases = frontier.claim(30)
            frontier.settle([(lease, Complete()) for lease in leases[:20]])
            frontier.settle([(leases[20], Bury("no", 404))])
            done = {lease.url for lease in leases[:20]}
            with server.client() as client:
                client.execute_command(*shlex.split(rule()))
            address = f"redis://backup:PASSWORD@127.0.0.1:{server.port}"
            dump = [command_line(), "-u", address, "--rdb", str(backup)]
            subprocess.run(dump, check=True, capture_output=True, timeout=60)
            frontier.settle([(lease, Complete()) for lease in frontier.claim(10)])  # lost: it is after the backup
            frontier.enqueue("https://books.example/late")
    finally:
        server.kill()
        server.remove()

    server = restored(backup)
    try:
        with SyncFrontier.open(server.url, crawl="books", create=False) as frontier:
            stats = frontier.admin.stats()
            assert (stats.done, stats.dead, stats.leased, stats.ready) == (20, 1, 9, 30)
            assert frontier.admin.fsck().damages == []
            while not frontier.finished():
                leases = frontier.claim(10, wait=1.0)
                assert not done & {lease.url for lease in leases}
                frontier.settle([(lease, Complete()) for lease in leases])
                done |= {lease.url for lease in leases}
            assert len(done) == 59
        server.kill()  # the append-only file has everything since
        server.start()
        with SyncFrontier.open(server.url, crawl="books", create=False) as frontier:
            stats = frontier.admin.stats()
            assert (stats.done, stats.dead, stats.pending) == (59, 1, 0)
            assert frontier.admin.revive() == 1
    finally:
        server.remove()
