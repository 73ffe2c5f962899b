"""Pages of a `LocalSite` that wait for an event of the test, so that it need not hurry."""

from __future__ import annotations

import asyncio
import itertools


def after(event, answer="a page", free=0, asked=None):
    """A route that answers when the event is set; the first *free* visitors need not wait."""
    asked = asked or itertools.count()

    async def wait(visit):
        waits = next(asked) >= free
        while waits and not event.is_set():  # noqa: ASYNC110 - the site has a thread of its own
            await asyncio.sleep(0.01)
        return answer(visit) if callable(answer) else answer

    return wait


def held(routes, event, free):
    """The routes of a site that answers its first *free* visitors, and the others when the event is set."""
    asked = itertools.count()
    return {path: after(event, answer, free, asked) for path, answer in routes.items()}
