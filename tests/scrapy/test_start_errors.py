"""A spider that cannot open says why in one sentence, without a traceback, and Scrapy exits with an error."""

from __future__ import annotations

import pytest

from tests.scrapy.conftest import both_versions, every_version

MISTAKES = {
    "no address": ({"REDIS_URL": "nonsense"}, "a server address looks like redis://localhost:6379/0"),
    "no server": ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "Redis at redis://127.0.0.1:1/0 cannot be reached"),
    "unknown setting": ({"SILKLINE_LEESE": "3"}, "unknown setting SILKLINE_LEESE"),
    "wrong value": ({"SILKLINE_LEASE": "x"}, "SILKLINE_LEASE must be a number of at least 1, got 'x'"),
    "read by the add-on": (
        {"SILKLINE_POLITENESS_CLUSTER_WIDE": "perhaps"},
        "SILKLINE_POLITENESS_CLUSTER_WIDE must be True or False, got 'perhaps'",
    ),
    "read by the stats": ({"STATS_KEY": "%(x)s"}, "STATS_KEY='%(x)s' is not a valid pattern"),
    "read by the pipeline": (
        {"REDIS_ITEMS_SERIALIZER": "nope.x"},
        "REDIS_ITEMS_SERIALIZER='nope.x' cannot be imported",
    ),
    "read by the spider": ({"REDIS_START_URLS_AS_SET": "perhaps"}, "REDIS_START_URLS_AS_SET must be True or False"),
    "queue class": ({"SCHEDULER_QUEUE_CLASS": "collections.OrderedDict"}, "cannot be used: the frontier is the queue"),
    "filter class": ({"DUPEFILTER_CLASS": "nope.X"}, "DUPEFILTER_CLASS='nope.X' cannot be imported"),
    "REDIS_PARAMS": ({"REDIS_PARAMS": "[1]"}, "REDIS_PARAMS must be a dict, got '[1]'"),
}
COMPONENTS = {
    "STATS_CLASS": "scrapy_redis.stats.RedisStatsCollector",
    "ITEM_PIPELINES": '{"silkline.scrapy.pipelines.RedisPipeline": 300}',
}


def check(process, sentence):
    assert process.wait() == 1, process.log
    assert process.log.count(" ERROR: ") == 1, process.log
    (line,) = (line for line in process.log.splitlines() if "ERROR: the spider cannot open: " in line)
    assert sentence in line
    for bad in ("Traceback", "CRITICAL", "Unhandled", "close failure"):
        assert bad not in process.log, process.log


@both_versions
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(scrapy, mistake, version):
    settings, sentence = MISTAKES[mistake]
    check(scrapy("crawl", "fed", version=version, settings={**COMPONENTS, **settings}), sentence)


@every_version
def test_so_is_a_wrong_password(scrapy, own_server, version):
    server = own_server(tcp=True, requirepass="right")
    url = server.tcp_url.replace("://", "://:wrong@")
    check(scrapy("crawl", "shop", version=version, settings=COMPONENTS, url=url), "does not allow it")


@every_version
def test_so_is_a_wrong_argument(scrapy, version):
    process = scrapy("crawl", "fed", "-a", "redis_batch_size=x", version=version)
    check(process, "redis_batch_size must be an integer")


@both_versions
def test_an_output_file_of_an_earlier_run_is_not_overwritten(scrapy, tmp_path, version):
    items = tmp_path / "items.json"
    items.write_text("[]")
    url = "redis://127.0.0.1:1/0"
    check(scrapy("crawl", "shop", "-O", str(items), version=version, url=url), "cannot be reached")
    assert items.read_text() == "[]"
