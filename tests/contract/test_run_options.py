"""What a run decides for all workers of its crawl."""

from __future__ import annotations

import pytest

from silkline.errors import ConfigError
from silkline.frontier.store.run_options import Output, RunOptions


async def test_a_crawl_keeps_what_its_run_decided(open_bare):
    frontier = await open_bare()
    assert await frontier.admin.run_options() == RunOptions()
    options = RunOptions(
        outputs=(Output("/data/items.jsonl", machine="here"), Output("s3://b", ("aws_secret_access_key",))),
        sinks=("to_api",),
        allow_private=True,
    )
    await frontier.admin.set_run_options(options)
    assert await (await open_bare()).admin.run_options() == options
    await frontier.admin.set_run_options(RunOptions(outputs=(), allow_private=False))
    assert await frontier.admin.run_options() == RunOptions(outputs=(), allow_private=False)


async def test_options_without_end_are_refused(open_bare):
    with pytest.raises(ConfigError, match="65536 bytes"):
        await (await open_bare()).admin.set_run_options(RunOptions(outputs=(Output("x" * 70_000),)))


async def test_a_crawl_that_is_removed_takes_them_with_it(open_bare):
    frontier = await open_bare()
    await frontier.admin.set_run_options(RunOptions(allow_private=True))
    await frontier.admin.remove()
    assert await (await open_bare()).admin.run_options() == RunOptions()
