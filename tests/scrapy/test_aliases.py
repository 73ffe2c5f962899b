"""Every public name of scrapy-redis does the same in Silkline: the checks of `alias_checks` pass with both."""

from __future__ import annotations

import ast
import json

import pytest

from tests.scrapy.processes import HERE, PYTHONS, SCRAPY_REDIS

PROGRAM = HERE / "alias_checks.py"
CHECKS = [
    node.name.removeprefix("check_")
    for node in ast.parse(PROGRAM.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.mark.parametrize("version", [SCRAPY_REDIS, *PYTHONS])
def test_the_names_of_scrapy_redis_do_what_they_do_there(scrapy, valkey, out, tmp_path, version):
    alias = {} if version == SCRAPY_REDIS else {"ALIAS": HERE / "aliases"}
    url = f"{valkey.url}?db=12"
    run = scrapy(str(PROGRAM), version=version, folder=tmp_path, url=url, **alias)
    assert run.wait() == 0, run.log
    told = json.loads(out.read_text())
    assert told["package"] == ("scrapy_redis" if version == SCRAPY_REDIS else "silkline.scrapy")
    assert list(told["results"]) == CHECKS
    failed = {name: error for name, error in told["results"].items() if error}
    assert not failed, "\n".join(failed.values())
