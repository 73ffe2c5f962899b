"""An example crawl. Run it:  silkline run crawl.py -o pages.jsonl

Stop it with Ctrl-C and run it again: it continues where it stopped. Change the handlers to extract what you need.
"""

from silkline import Budget, Crawl, FetchOptions, Page, Politeness, Scope

crawl = Crawl(
    "crawl",  # the name of the crawl on the server
    start=["https://books.toscrape.com/"],
    # Rate limits of each host, for all workers together: one request at a time, one second apart.
    politeness=Politeness(delay=1.0, concurrency=1),
    # Which links are followed: links to the same host, except those that match a deny pattern.
    scope=Scope(stay="host", deny=(r"/log(in|out)\b", r"[?&](sort|session)=")),
    # How many pages are crawled. Remove this line to crawl the whole site.
    budget=Budget(pages=100),
    # How site owners can reach you: a URL or an email address.
    fetching=FetchOptions(contact=None),
)


# The first handler receives the start pages. A handler yields items (a dict, a dataclass, …), which are stored, and
# requests, which are crawled. `page.follow` turns links into requests, for the same handler unless you name another:
#
#     yield page.follow(page.css("h3 a"), product)
#
@crawl.handler
def every_page(page: Page):
    title = page.css_first("title")
    yield {
        "url": page.url,
        "title": title.text(strip=True) if title else None,
        "links": len(page.links()),
    }
    yield page.follow(page.css("a[href]"))


# A second handler, for another kind of page:
#
# @crawl.handler
# def product(page: Page):
#     yield {"name": page.text_of("h1"), "price": page.text_of(".price_color")}
