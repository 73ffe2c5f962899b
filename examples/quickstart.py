"""The frontier in async code: enqueue, claim, complete with the links that were found.

It needs no Redis: an embedded server stores the data in .silkline/, so in a second run everything is already done.
Run it: python examples/quickstart.py
"""

import asyncio

from silkline import Admission, Frontier, Lease, Politeness

SITE = {
    "https://books.example/": ["/travel", "/poetry"],
    "https://books.example/travel": ["/travel/1", "/travel/2", "/"],
    "https://books.example/poetry": ["/poetry/1", "https://authors.example/"],
    "https://authors.example/": ["https://books.example/poetry"],
}


async def fetch(url: str) -> list[str]:
    """Pretend to fetch a page; return its links."""
    await asyncio.sleep(0.01)
    return [link if "://" in link else f"https://books.example{link}" for link in SITE.get(url, [])]


async def visit(frontier: Frontier, lease: Lease) -> None:
    links = await fetch(lease.url)
    outcome = await frontier.complete(lease, links)  # the links are stored before the page counts as done
    print(f"{lease.url}: {len(links)} links, {outcome.links.count(Admission.ADDED)} of them new")


async def main() -> None:
    politeness = Politeness(delay=0.05, concurrency=2)
    async with await Frontier.open(crawl="quickstart", politeness=politeness) as frontier:
        print(*await frontier.enqueue(["https://books.example/", "not a URL"]))
        while not await frontier.finished():
            leases = await frontier.claim(10, wait=1.0)  # only from hosts that may be fetched now
            await asyncio.gather(*(visit(frontier, lease) for lease in leases))
        stats = await frontier.admin.stats()
        print(f"{stats.done} pages done, {stats.seen} URLs seen, {stats.dead} dead")


if __name__ == "__main__":
    asyncio.run(main())
