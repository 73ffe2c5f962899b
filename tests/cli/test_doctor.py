"""``silkline doctor`` on real servers."""

from __future__ import annotations

import re

import pytest

from silkline.cli.main import run as run_command
from silkline.frontier.crawl_server import CrawlServer
from tests.cli.conftest import Ran
from tests.docs.pages import ROOT


@pytest.fixture
def doctor(capsys, monkeypatch):
    monkeypatch.delenv("SILKLINE_REDIS", raising=False)

    def run(url, *arguments):
        capsys.readouterr()
        return Ran(run_command(["doctor", "--redis", url, *arguments]), *capsys.readouterr())

    return run


def test_every_kind_of_server_can_be_examined(doctor, any_server):
    answer = doctor(any_server.url, "--json")
    findings = {finding["check"]: finding for finding in answer.json["findings"]}
    assert answer.code == (1 if "bad" in [one["grade"] for one in findings.values()] else 0)
    for check in ("version", "eviction", "persistence", "memory", "clock", "access", "compression"):
        assert findings[check]["grade"] != "unknown", check
    assert ("cluster" in findings) == (any_server.kind == "cluster")
    assert "no persistence" in findings["persistence"]["text"]


def test_it_is_reported_in_a_table_with_fixes(doctor, valkey):
    answer = doctor(valkey.url)
    assert answer.code == 0
    assert "→ Run CONFIG SET list-compress-depth 1" in answer.out
    assert answer.out.index("warn") < answer.out.index("fine")


def test_a_slow_command_and_a_slow_event_are_reported_without_their_arguments(doctor, own_server):
    server = own_server(latency_monitor_threshold="20", enable_debug_command="yes")
    with server.client() as client:
        client.execute_command("DEBUG", "SLEEP", "0.1")
    findings = doctor(server.url, "--json").json["findings"]
    [slow] = [finding for finding in findings if finding["check"] == "slow log"]
    assert (slow["grade"], "SLOWLOG GET" in slow["fix"]) == ("warn", True)
    assert re.search(r"; DEBUG took \d+(\.\d+)? s$", slow["text"]), slow
    assert any(finding["check"] == "latency" and "recorded command: " in finding["text"] for finding in findings)


def test_a_server_that_is_refused_otherwise_is_examined(doctor, own_server):
    server = own_server(maxmemory_policy="allkeys-lru", maxmemory="100mb", requirepass="secret")
    login = f"unix://:secret@{server.socket}"
    answer = doctor(login, "--json")
    assert answer.code == 1
    [worst] = [finding for finding in answer.json["findings"] if finding["grade"] == "bad"]
    assert worst["check"] == "eviction"
    assert "noeviction" in worst["fix"]
    assert "secret" not in answer.out + answer.err


def test_a_user_with_few_rights_learns_what_it_may_not_ask(doctor, own_server):
    server = own_server()
    [rule] = [line for line in (ROOT / "docs/how-to/secure-redis.md").read_text().splitlines() if "SETUSER" in line]
    with server.client() as client:
        client.execute_command(*rule.replace("PASSWORD", "pw").split())
    answer = doctor(f"unix://silkline:pw@{server.socket}", "--json")
    grades = {finding["check"]: finding["grade"] for finding in answer.json["findings"]}
    assert (answer.code, grades["compression"], grades["clock"], grades["access"]) == (0, "unknown", "fine", "fine")


def test_what_is_wrong_gets_a_sentence_and_a_code(doctor, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert doctor("nonsense").code == 2
    assert doctor("redis://127.0.0.1:1/0").code == 3
    assert doctor("embedded:nowhere").code == 2


async def test_the_dashboard_can_ask_too(valkey):
    server = await CrawlServer.open(valkey.url)
    [node] = await server.examine()
    await server.close()
    assert node.user == "default"


def test_the_help_has_the_rule_of_the_guide(silkline):
    [rule] = [line for line in (ROOT / "docs/how-to/secure-redis.md").read_text().splitlines() if "SETUSER" in line]
    assert rule in " ".join(silkline("doctor", "--help").out.split())
