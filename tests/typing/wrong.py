"""Uses that a type checker must reject. Each line that ends with a comment has an error of that kind, and no other line has one."""

from silkline import Complete, Crawl, Frontier, Page, Politeness, Request, Scope, SyncFrontier, Tasks, Worker

crawl = Crawl("shop", politeness=0.5)  # arg-type
Crawl("shop", polite=Politeness())  # call-arg
Politeness(delay="1 s")  # arg-type
Scope(stay="domain")  # arg-type
Request("https://a.example/", priority="high")  # arg-type
Request("https://a.example/").priority = 5  # misc


@crawl.handler
def parse(page: Page) -> None:
    print(page.titel)  # attr-defined
    page.follow(42)  # arg-type
    page.css_first("h1").text()  # union-attr
    price: float = page.text_of(".price")  # assignment
    print(price)


async def work(url: str) -> None:
    frontier = await Frontier.open(url, crawl="shop")
    leases = frontier.claim(10)
    len(leases)  # arg-type
    await frontier.enqueue(5)  # arg-type
    [lease] = await frontier.claim(10)
    await frontier.settle([(Complete(), lease)])  # list-item
    await frontier.retry(lease, 1.0, resaon="503")  # call-arg
    await frontier.inbox("urls")  # misc
    with frontier.lock("report"):  # attr-defined
        pass
    with SyncFrontier.open(url, crawl="shop") as plain:
        await plain.enqueue("https://a.example/")  # misc
        Worker(crawl, plain)  # arg-type


app = Tasks("mail")


@app.task
def send(to: str, copies: int = 1) -> bool:
    return bool(to) and copies > 0


async def call() -> None:
    await send.enqueue(5)  # arg-type
    await send.enqueue("a@example.com", copy=2)  # call-arg
    handle = await send.enqueue("a@example.com")
    size: bytes = await handle.result()  # assignment
    print(size)
    send.enqueue("a@example.com").result()  # attr-defined
