"""Starts spiders that are fed from Redis, and looks at what they do."""

from __future__ import annotations

import json
import time

from tests.scrapy.processes import HERE, Scrapy

SETTINGS = {
    "ADDONS": {"silkline.scrapy.Addon": 100},
    "ITEM_PIPELINES": {"silkline.scrapy.pipelines.RedisPipeline": 300},
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "SCHEDULER_PERSIST": True,
    "SILKLINE_ALLOW_PRIVATE": True,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "INFO",
}


class Spiders(Scrapy):
    """Spiders of one process. *spiders* maps their names, and thereby their keys, to the class and its own settings."""

    def __init__(self, zygote, folder, url, spiders, **settings):
        plan = {"settings": {**SETTINGS, "REDIS_URL": url, **settings}, "spiders": spiders}
        log = folder / f"log-{time.monotonic_ns()}"
        super().__init__(zygote, folder, log, [str(HERE / "run_spiders.py"), json.dumps(plan)], {})

    def finish(self, seconds=100):
        """Wait until all have closed; answers the log."""
        try:
            until(lambda: not self.running, seconds)
        except AssertionError:
            raise AssertionError(self.log) from None
        assert self.wait() == 0, self.log
        return self.log

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._code is None:
            self.kill()


def until(question, seconds=100, spiders=None):
    """Wait until *question* answers with something true, and answer that; not longer than *spiders* run."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        if time.monotonic() > deadline or (spiders and not spiders.running):
            raise AssertionError(spiders.log if spiders else "it did not come about in time")
        time.sleep(0.005)
    return answer


def items(client, key):
    return [json.loads(line) for line in client.lrange(key, 0, -1)]
