"""A web application that enqueues tasks.

Run it: fastapi dev examples/tasks/web.py
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from thumbnails import app as tasks
from thumbnails import fetch


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with tasks:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/fetches/{sku}")
async def start(sku: str) -> dict[str, str]:
    handle = await fetch.enqueue(sku=sku)
    return {"id": handle.id}


@app.get("/fetches/{call}")
async def status(call: str) -> dict[str, str]:
    return {"status": await fetch.handle(call).status()}
