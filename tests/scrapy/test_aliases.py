"""Every public name of scrapy-redis does the same in Silkline: the checks of `alias_checks` pass with both."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tests.scrapy.processes import HERE, PYTHONS, ROOT, SCRAPY_REDIS

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


SUITE = """
import os
import redis
from scrapy_redis import connection


class TestSuite:
    def setup(self):
        self.server = redis.Redis(os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]))

    def test_good(self):
        assert connection.__name__ == "silkline.scrapy.connection"
        assert self.server.ping()

    def test_bad(self):
        assert not self.server.ping()
"""


def test_the_tool_runs_the_tests_of_a_checkout_with_silkline_in_the_place_of_scrapy_redis(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_scrapy_redis.py").write_text(SUITE)
    command = [sys.executable, str(ROOT / "tools" / "run_scrapy_redis_suite.py"), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "test_good PASSED" in run.stdout
    assert "1 failed, 1 passed" in run.stdout
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["test_scrapy_redis.py"]
