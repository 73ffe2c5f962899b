"""A web application that enqueues tasks, from async views and from plain ones.

Run it: fastapi dev examples/tasks/web.py
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from thumbnails import app as tasks
from thumbnails import fetch, record


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with tasks:  # closes the connection of plain views too
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/fetches/start/{sku}")
async def start(sku: str) -> dict[str, str]:
    handle = await fetch.enqueue(sku=sku)
    return {"id": handle.id}


@app.get("/fetches/{call}")
async def status(call: str) -> dict[str, str]:
    return {"status": await fetch.handle(call).status()}


@app.get("/fetches/{call}/result")
async def result(call: str) -> dict[str, int]:
    return {"result": await fetch.handle(call).result(timeout=30)}


@app.post("/records/start/{sku}")
def start_record(sku: str, size: int) -> dict[str, str]:
    """FastAPI runs a plain view in a thread. Threads share one connection."""
    return {"id": record.sync.enqueue(sku=sku, size=size).id}


@app.get("/records/{call}/result")
def record_result(call: str) -> dict[str, str]:
    return {"result": record.sync.handle(call).result(timeout=30)}
