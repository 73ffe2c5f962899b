"""The task of a side of the crawl comparison. Standard library only: the peers import it from their own environment."""

import argparse
from dataclasses import dataclass

CONCURRENCY = 64


@dataclass(frozen=True, slots=True)
class CrawlTask:
    """One crawl of the shop."""

    server: str
    site: str
    pages: int
    option: str


def read_crawl_task() -> CrawlTask:
    """Read the task from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--site", required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--option", default="")
    return CrawlTask(**vars(parser.parse_args()))
