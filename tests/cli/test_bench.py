import subprocess
import time
from pathlib import Path

import pytest

from silkline.frontier.crawl_server import crawl_names
from tests.cli.processes import COMMAND, environment


def test_the_figures_as_json(silkline, any_server):
    before = set(crawl_names(any_server.url))
    answer = silkline("bench", "--redis", any_server.url, "--urls", "5000", "--hosts", "100", "--json")
    assert answer.code == 0
    assert (answer.json["urls"], answer.json["hosts"], answer.json["server"]) == (5000, 100, any_server.url)
    assert 5 < answer.json["bytes_per_url"] < 500
    steps = {step["name"]: step for step in answer.json["steps"]}
    assert set(steps) == {"enqueue", "enqueue again (all seen)", "claim + complete", "claim", "complete"}
    for step in steps.values():
        assert step["per_second"] > 0
        assert 0 < step["p50_ms"] <= step["p99_ms"]
    assert steps["complete"]["calls"] >= 50
    assert set(crawl_names(any_server.url)) == before


def test_the_figures_for_people(silkline, valkey):
    answer = silkline("bench", "--redis", valkey.url, "--urls", "2000")
    assert answer.code == 0
    assert "Valkey" in answer.out
    assert "2,000 URLs over 1,000 hosts, one client" in answer.out
    assert "bytes per URL" in answer.out


def test_nothing_but_expiring_replies_stays_on_the_server(silkline, servers):
    server = servers("valkey")
    silkline("bench", "--redis", server.url, "--urls", "2000", "--json")
    with server.client() as client:
        left = [key for key in client.scan_iter("silkline:{bench-*", count=1000) if b":once:" not in key]
        assert left == []
        assert all(client.ttl(key) > 0 for key in client.scan_iter("silkline:{bench-*", count=1000))


def test_without_an_address_it_uses_a_server_of_its_own_and_leaves_nothing(silkline, workplace):
    answer = silkline("bench", "--urls", "1000", "--json", TMPDIR=str(workplace))
    assert answer.code == 0
    assert answer.json["server"].startswith("embedded:")
    assert list(workplace.iterdir()) == []


def test_interrupted_it_cleans_up_too(valkey, workplace):
    command = [COMMAND, "bench", "--redis", valkey.url, "--urls", "1000000"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workplace, env=environment()
    )
    deadline = time.monotonic() + 100
    while not (mine := [name for name in crawl_names(valkey.url) if name.startswith("bench-")]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(2)
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (130, b"interrupted\n")
    assert mine[0] not in crawl_names(valkey.url)


@pytest.mark.parametrize("address", ["redis://127.0.0.1:1"])
def test_a_server_out_of_reach_is_reported(silkline, address):
    answer = silkline("bench", "--redis", address)
    assert answer.code == 3
    assert "cannot be reached" in answer.err


def test_the_command_is_installed():
    assert Path(COMMAND).exists()
