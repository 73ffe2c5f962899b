from __future__ import annotations

import pytest

from tests.scripts.shard import Shard


@pytest.fixture
def client(servers):
    with servers("cluster").client() as client:
        yield client


@pytest.fixture
def make_shard(client, crawl, clock):
    def make(**settings):
        return Shard(client, crawl, clock, **settings)

    return make


@pytest.fixture
def shard(make_shard):
    return make_shard()
