"""A coordinator: it enqueues the URLs of a table, and waits until workers have filled the other columns.

Start workers (examples/jobs/shop.py) before or after it. Run it again at any time: URLs that are known are not enqueued twice.
Run it: DATABASE=postgresql://user@host/shop python examples/jobs/coordinator.py
"""

import os
import time

import psycopg
from shop import crawl

from silkline import SyncFrontier

LEFT = "SELECT url FROM products WHERE price IS NULL"


def main() -> None:
    with (
        psycopg.connect(os.environ["DATABASE"], autocommit=True) as database,
        SyncFrontier.open(os.environ.get("SILKLINE_REDIS"), crawl=crawl.name, **crawl.arguments) as frontier,
    ):
        urls = [url for (url,) in database.execute(LEFT)]
        frontier.enqueue(urls)
        while not frontier.finished():
            time.sleep(0.5)
        left = len(database.execute(LEFT).fetchall())
        print(f"{len(urls)} URLs, {left} of them without a price, {frontier.admin.stats().dead} dead letters")


if __name__ == "__main__":
    main()
