"""A typical project of scrapy-redis crawls a shop that behaves as shops do."""

from __future__ import annotations

from collections import Counter

from silkline import SyncFrontier
from silkline.testing.site import Shop, SiteProcess
from tests.scrapy.conftest import every_version
from tests.scrapy.processes import lines

SHOP = Shop(pages=60, trouble=True, slow=0.1)
FAST = {"CONCURRENT_REQUESTS_PER_DOMAIN": 16}


def products(found):
    return [{name: item[name] for name in ("sku", "title", "price")} for item in found if "sku" in item]


@every_version
def test_every_item_is_stored_once_in_spite_of_retries_and_redirects(scrapy, out, valkey, crawl, version):
    with SiteProcess(SHOP) as site:
        run = scrapy("crawl", "shop", "-a", f"site={site.url}", version=version, settings=FAST)
        assert run.wait() == 0, run.log
        visits = Counter(visit.path for visit in site.visits)
        assert sorted(products(lines(out)), key=lambda item: item["sku"]) == SHOP.items
        assert "/cart" not in visits
        for number in range(SHOP.products):
            tries = {"busy": 2, "busy-until": 2, "broken": 3}.get(SHOP.trouble_of(number), 1)
            assert visits[f"/product/{number}"] == tries, number
        assert run.stats["finish_reason"] == "finished"
        assert run.stats["scheduler/enqueued/redis"] >= SHOP.pages
        assert run.stats["retry/count"] > 0

        with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:  # SCHEDULER_PERSIST: what was seen is kept
            stats = frontier.admin.stats()
            assert (stats.pending, stats.leased, stats.dead) == (0, 0, 0)
            assert stats.conserved

        site.forget()  # a second run finds the start page, which is not filtered, and nothing new on it
        again = scrapy("crawl", "shop", "-a", f"site={site.url}", version=version, settings=FAST)
        assert again.wait() == 0
        assert {visit.path for visit in site.visits} == {"/", "/robots.txt"}
        assert again.stats["dupefilter/filtered"] > 0
