"""The dashboard mounted in your own app, at /silk. To serve it: uvicorn embedded_dashboard:app; as a program, it requests its own pages."""

import asyncio
import http.client
import os
import secrets
import socket
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from silkline import Frontier
from silkline.dashboard import app as make_dashboard

SERVER = "embedded:.silkline"
TOKEN = os.environ.get("SILKLINE_TOKEN") or secrets.token_hex(16)
dashboard = make_dashboard(SERVER, token=TOKEN)  # without a token it is read-only for everyone


async def home(_: Request) -> PlainTextResponse:
    return PlainTextResponse("my own app")


@asynccontextmanager
async def lifespan(_: Starlette):
    yield
    await dashboard.close()  # mounted apps receive no shutdown event


app = Starlette(routes=[Route("/", home), Mount("/silk", app=dashboard)], lifespan=lifespan)  # FastAPI: app.mount(…)


def visit(port: int, path: str, **headers: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    title = text.partition("<title>")[2].partition("</title>")[0]
    return f"{path}: {answer.status} {title or text.strip()}"


async def main() -> None:
    async with await Frontier.open(SERVER, crawl="books") as frontier:
        await frontier.enqueue("https://books.example/")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        serving = asyncio.create_task(server.serve([listener]))
        for path, headers in (("/", {}), ("/silk/", {}), ("/silk/crawls/books", {"Authorization": f"Bearer {TOKEN}"})):
            print(await asyncio.to_thread(visit, listener.getsockname()[1], path, **headers))
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
