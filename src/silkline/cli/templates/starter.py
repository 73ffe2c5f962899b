"""A crawl. Run it:  silkline run crawl.py -o pages.jsonl

Stop it with Ctrl-C and run it again: it goes on where it was. Change the handlers to take what you want from each page.
"""

from silkline import Budget, Crawl, Fetching, Page, Politeness, Scope

crawl = Crawl(
    "crawl",  # its name on the server: another name is another crawl
    start=["https://books.toscrape.com/"],
    # How gently each host is treated, by all workers together: one request at a time, a second apart.
    politeness=Politeness(delay=1.0, concurrency=1),
    # Which links are followed: those of the same host, and none that look like these.
    scope=Scope(stay="host", deny=(r"/log(in|out)\b", r"[?&](sort|session)=")),
    # How much is crawled. Take the line out to crawl everything.
    budget=Budget(pages=100),
    # Who you are, so that site owners can reach you: a URL or a mail address.
    fetching=Fetching(contact=None),
)


# The first handler gets the start pages. What a handler yields is stored, if it is an item (a dict, a dataclass, …),
# or crawled, if it is a request. `page.follow` makes one of a link; it goes to the same handler if none is named:
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


# A second handler, for pages of another kind:
#
# @crawl.handler
# def product(page: Page):
#     yield {"name": page.css_first("h1").text(), "price": page.css_first(".price_color").text()}
