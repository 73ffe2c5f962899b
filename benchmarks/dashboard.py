"""Claim: any page of the dashboard takes less than 300 ms on a crawl of 5 M pending, 100 k hosts, 100 k dead letters.
Run it separately; it takes some minutes to fill the crawl. With --redis it uses a server that `fill` has filled.

Times are those of a request over loopback, from sending to the last byte; the time inside the server is shown next to them.
"""

import argparse
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median_low
from typing import NamedTuple

import uvicorn
from redis import Redis

from benchmarks.lab import open_lab
from benchmarks.operators import CRAWL, MUST_MS, ROUNDS, fill
from silkline import SyncFrontier
from silkline.dashboard import app


class Cost(NamedTuple):
    path: str
    seconds: float
    server_ms: float
    bytes: int


@contextmanager
def served(url: str) -> Iterator[int]:
    """Serve the dashboard of a server; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app(url), log_level="error"))
        server.install_signal_handlers = lambda: None
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(10)


def paths(url: str, pending: int, hosts: int) -> list[str]:
    with SyncFrontier.open(url, crawl=CRAWL) as frontier:
        letter = frontier.admin.dead(limit=1)[0].id
    waiting = f"https://h{(pending - 1) % hosts}.example/catalogue/page-{pending - 1}"
    return [
        "/",
        "/?range=day",
        "/crawls",
        f"/crawls/{CRAWL}",
        f"/hosts?crawl={CRAWL}",
        f"/hosts?crawl={CRAWL}&place=paused",
        f"/host?crawl={CRAWL}&host=h7.example",
        "/requests",
        f"/requests?url={waiting}",
        "/requests?url=https://h5.example/catalogue/page-5",
        "/requests?url=https://nowhere.example/",
        f"/dead?crawl={CRAWL}",
        f"/dead?crawl={CRAWL}&status=503",
        f"/dead?crawl={CRAWL}&status=418",
        f"/dead?crawl={CRAWL}&status=418&all=1",
        f"/dead?crawl={CRAWL}&host=h5.example",
        f"/dead?crawl={CRAWL}&host=nowhere.example",
        f"/dead/letter?crawl={CRAWL}&id={letter}",
        f"/dead/revive?crawl={CRAWL}&host=h5.example",
        f"/dead/revive?crawl={CRAWL}",
        f"/dead/revive?crawl={CRAWL}&status=503",
        f"/dead/revive?crawl={CRAWL}&reason=redirects",
        f"/dead/purge?crawl={CRAWL}&newer=1h",
        "/workers",
        "/redis",
        "/audit",
        "/metrics",
        f"/autoscale?crawl={CRAWL}",
    ]


def measure(redis: Redis, port: int, path: str) -> Cost:
    redis.config_resetstat()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    start = time.perf_counter()
    connection.request("GET", path, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    size = len(answer.read())
    seconds = time.perf_counter() - start
    connection.close()
    assert answer.status == 200, (path, answer.status)
    stats = redis.info("commandstats")
    asked = sum(one["usec"] for name, one in stats.items() if name[8:].lower() in ("evalsha", "eval", "info"))
    return Cost(path, seconds, asked / 1000, size)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=5_000_000)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--dead", type=int, default=100_000)
    parser.add_argument("--redis")
    args = parser.parse_args()
    if args.redis:
        return report(Redis.from_url(args.redis), args.redis, args.pending, args.hosts)
    with open_lab(quick=False) as lab:
        fill(lab.url, args.pending, args.hosts, args.dead)
        return report(lab.redis, lab.url, args.pending, args.hosts)


def report(redis: Redis, url: str, pending: int, hosts: int) -> int:
    with served(url) as port:
        asked = paths(url, pending, hosts)
        rounds = [[measure(redis, port, path) for path in asked] for _ in range(ROUNDS)]
    costs = [median_low(each) for each in zip(*rounds, strict=True)]
    for cost, each in zip(costs, zip(*rounds, strict=True), strict=True):
        late = "" if cost.seconds * 1000 < MUST_MS else "  TOO LONG"
        longest = max(one.seconds for one in each) * 1000
        told = f"{cost.seconds * 1000:6.0f} ms, at most {longest:6.0f}  {cost.server_ms:7.1f} ms on the server"
        print(f"{told}  {cost.bytes / 1024:6.0f} KB  {cost.path}{late}")
    return 1 if any(cost.seconds * 1000 >= MUST_MS for cost in costs) else 0


if __name__ == "__main__":
    raise SystemExit(main())
