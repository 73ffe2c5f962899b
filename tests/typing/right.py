"""Uses that a type checker must accept."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from silkline import (
    Admission,
    Complete,
    Crawl,
    FetchOptions,
    Frontier,
    Lease,
    Page,
    Politeness,
    Request,
    RetryIn,
    SyncFrontier,
    Tasks,
    Worker,
)
from silkline.errors import ElementNotFound
from silkline.fetch import Sessions
from silkline.testing import MemoryFrontier, page, run_handler

crawl = Crawl("shop", start="https://shop.example/", politeness=Politeness(delay=0.5))


@crawl.handler
def parse(page: Page) -> Iterator[Request | dict[str, str] | list[Request] | None]:
    if heading := page.css_first("h1"):
        yield {"title": heading.text()}
    yield page.follow(page.css("a"), product)
    yield page.follow("/search", found, args={"query": "lamp"}, json={"query": "lamp"})
    yield page.follow("/search", found, args={"query": "lamp"}, data=[("query", "lamp")])
    yield page.form("#login").submit(account, {"user[name]": "ann"}, password="x", remember=True, button=False)
    yield Request("https://shop.example/about", priority=5)


@crawl.handler
def price(page: Page) -> dict[str, str | None]:
    size: str = page.text_of(".price")
    return {"price": size.strip(), "link": page.one("a").attributes["href"]}


@crawl.handler
async def product(page: Page) -> AsyncIterator[dict[str, str]]:
    yield {"url": page.url}


@crawl.handler
def found(page: Page, query: str) -> dict[str, str]:
    return {"query": query, "title": page.text_of("h1")}


@crawl.login(ended=lambda page: page.status == 401)
async def log_in(session: Any) -> None:
    page: Page = await session.fetch("https://shop.example/login")
    await session.fetch(page.form("#login").submit(user=session.name))


pool = Crawl(
    "pool", fetching=FetchOptions(session=Sessions(size=3, retire_on=[403, "captcha", lambda page: page.status == 200]))
)


@crawl.handler
def account(page: Page) -> None:
    print(page.form().fields, page.form("#logout").buttons)


@crawl.handler
def nothing(page: Page) -> None:
    print(page.url)


async def work(url: str) -> None:
    async with await Frontier.open(url, crawl="shop") as frontier:
        [added] = await frontier.enqueue("https://shop.example/")
        assert added is Admission.ADDED
        leases = await frontier.claim(10, wait=1.0)
        await frontier.settle([(lease, Complete(links=["https://shop.example/2"])) for lease in leases[:1]])
        for lease in leases[1:]:
            await frontier.retry(lease, after=2.0, reason="503", status=503)
        stats = await frontier.admin.stats()
        print(stats.ready + stats.done)
        inbox = frontier.inbox("urls")
        print([message.data for message in await inbox.take()])
        async with frontier.lock("report") as hold:
            print(hold.token)
        await Worker(crawl, frontier).run()


def work_without_async(url: str) -> list[Lease]:
    with SyncFrontier.open(url, crawl="shop") as frontier:
        frontier.enqueue([Request("https://shop.example/", meta={"page": 1})])
        leases = frontier.claim()
        frontier.settle((lease, RetryIn(5.0)) for lease in leases)
        with frontier.semaphore("pages", 3):
            return leases


async def in_memory() -> None:
    async with await MemoryFrontier.open(crawl="shop") as frontier:
        await frontier.complete((await frontier.claim())[0], result={"price": 9.5})


app = Tasks("mail")


@app.task(retries=[1, 10])
def send(to: str, copies: int = 1) -> bool:
    return bool(to) and copies > 0


@app.task(cpu=True)
def resize(width: int) -> bytes:
    return b"x" * width


def in_a_test() -> None:
    result = run_handler(price, page("<p class=price>9</p>", url="https://shop.example/1", crawl=crawl))
    links: list[str] = [link.url for link in result.links]
    print(result.items, links)
    try:
        page(b"{}", status=404, headers={"content-type": "application/json"}).one("h1")
    except ElementNotFound as error:
        print(error.selector, error.url)


async def call() -> None:
    handle = await send.enqueue("a@example.com", copies=2)
    sent: bool = await handle.result(timeout=1.0)
    await send.options(delay=5).enqueue(to="b@example.com")
    print(sent, send("c@example.com"))


def call_without_async() -> bytes:
    image: bytes = resize.sync.enqueue(3).result()
    return image
