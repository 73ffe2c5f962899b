"""Enqueue tasks and wait for their results.

Run it beside the worker: python examples/tasks/enqueue.py
"""

import asyncio

from thumbnails import app, fetch, record, resize

from silkline.errors import RequestError


async def main() -> None:
    async with app:
        handles = await fetch.enqueue_many([{"sku": "a"}, {"sku": "bb"}, {"sku": "ccc"}])
        print([await handle.result(timeout=60) for handle in handles])

        resized = await resize.options(unique="a").enqueue(sku="a", sizes=[10, 20])
        print(await resized.result(timeout=60), await resized.status())

        try:
            await record.enqueue(sku="a", size="large")
        except RequestError as error:
            print(error)


def in_plain_code() -> None:
    """As in a view of Django or Flask."""
    handle = record.sync.enqueue(sku="a", size=3)
    print(handle.result(timeout=60))
    app.close_sync()


if __name__ == "__main__":
    asyncio.run(main())
    in_plain_code()
