"""The crawl of ``silkline demo``: a shop with slow and failing pages, served on several loopback addresses."""

from silkline import Crawl, FetchOptions, Page, Politeness, Scope

HOSTS = ["127.0.0.1:8000", "127.0.0.2:8000"]
DELAY = 0.2
DEPTH = 110

crawl = Crawl(
    "demo",
    start=[f"http://{HOSTS[0]}/"],
    politeness=Politeness(delay=DELAY, concurrency=2),
    scope=Scope(stay="anywhere", max_depth=DEPTH),  # the calendar of the shop is endless: the depth limit ends it
    retries=[0.5, 1, 2, 4],
    fetching=FetchOptions(contact="https://silkline.example/demo", allow_private=True),
)


@crawl.handler
def listing(page: Page):
    yield page.follow(spread(page.css("a.product, a.more")), product)
    yield page.follow(spread(page.css("a.next")), priority=1)
    yield page.follow(spread(page.css("a.calendar")), event)


@crawl.handler
def product(page: Page):
    yield {name: page.text_of(selector) for name, selector in FIELDS.items()}
    yield page.follow(spread(page.css("a.more")))


@crawl.handler
def event(page: Page):
    yield page.follow(spread(page.css("a")[:1]), priority=1)  # the link to the next day


FIELDS = {"sku": "p.sku", "title": "h1", "price": "p.price"}


def spread(links):
    """Spread the pages over the hosts: every host serves the whole shop."""
    for link in links:
        path = link.attributes["href"]
        number = int(path.rpartition("/")[2])
        yield f"http://{HOSTS[number % len(HOSTS)]}{path}"
