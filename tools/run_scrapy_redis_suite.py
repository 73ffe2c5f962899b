"""Runs the tests of scrapy-redis with Silkline in its place, and prints which of them pass.

    git clone https://github.com/rmax/scrapy-redis /tmp/scrapy-redis
    python tools/run_scrapy_redis_suite.py /tmp/scrapy-redis [options of pytest]

The package ``scrapy_redis`` is tests/scrapy/aliases, and the server is a temporary one. The checkout is not changed. The tests that are
known to fail are explained in docs/how-to/migrate-from-scrapy-redis.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATHS = (ROOT / "tests" / "scrapy" / "aliases", ROOT / "src", ROOT / "tools")


@pytest.fixture(autouse=True)
def call_setup(request: pytest.FixtureRequest) -> None:
    """Call ``setup()`` of a test class, as nose did. The suite was written for it, and pytest no longer does."""
    if not hasattr(request.instance, "setUp") and callable(setup := getattr(request.instance, "setup", None)):
        setup()


def pytest_report_header() -> str:
    """Return the package on which the tests run, so that an installed scrapy-redis is not mistaken for Silkline."""
    import scrapy_redis  # noqa: PLC0415 - in the process of the tests only

    return f"scrapy_redis is {scrapy_redis.__name__}"


def run(checkout: Path, options: list[str]) -> int:
    """Run the tests of a checkout against a new server. Returns the exit code of pytest."""
    sys.path.insert(0, str(ROOT))
    from tests.servers import Server  # noqa: PLC0415 - from this repository, not installed

    server = Server("valkey", tcp=True).start()
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, PATHS)), "REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(server.port)
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-p", Path(__file__).stem, "-v", "--tb=line", "-rfE", "-o", "addopts="]
    without = ["-p", "no:cacheprovider", "-p", "no:asyncio"]
    try:
        return subprocess.run(
            [*command, *without, f"--rootdir={checkout}", *options, str(checkout / "tests")],
            cwd=checkout,
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
        ).returncode
    finally:
        server.remove()


if __name__ == "__main__":
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "tests" / "test_scrapy_redis.py").exists():
        sys.exit("name a checkout of scrapy-redis: python tools/run_scrapy_redis_suite.py PATH")
    sys.exit(run(Path(sys.argv[1]).resolve(), sys.argv[2:]))
