import os
import re
import signal
import subprocess
import sys
import time

import msgspec
import psutil
import pytest

from silkline import SyncFrontier
from silkline.cli.demo.queue_proof import Journal, prove
from tests.cli.processes import COMMAND, environment

SMALL = ("--queue", "--urls", "5000", "--hosts", "50", "--delay", "0.03")


def test_a_killed_worker_loses_nothing(silkline, workplace):
    answer = silkline("demo", *SMALL, TMPDIR=str(workplace))
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out.splitlines()[-1] == "5,000 completed, 0 lost"
    for words in ("SIGKILL to worker", "which held", "are back in their queues", "killed", "all because of the kill"):
        assert words in answer.out
    assert "politeness        kept" in answer.out
    assert list(workplace.iterdir()) == []


def test_the_proof_as_json_and_the_journals_that_prove_it(silkline, workplace):
    answer = silkline("demo", *SMALL, "--workers", "2", "--json", "--dir", "data")
    assert answer.code == 0
    proof = answer.json
    assert proof["sound"]
    assert (proof["enqueued"], proof["completed"], proof["completed_says_frontier"]) == (5000, 5000, 5000)
    assert proof["lost"] == []
    assert proof["handed_out_twice"]
    assert proof["first_held_by_killed"]
    assert proof["closest_starts"] >= 0.03
    assert "silkline status --redis embedded:data" in answer.err
    lines = [line for file in workplace.glob("data/demo-*/*.journal") for line in file.read_text().splitlines()]
    done = [line.split()[2] for line in lines if line.startswith("=")]
    assert set(done) == {f"https://shop-{i % 50}.example/article/{i}" for i in range(5_000)}
    [crawl] = silkline("status", "--redis", "embedded:data", "--json").json["crawls"]
    assert (crawl["done"], crawl["rescued"]) == (5000, len(proof["handed_out_twice"]))


def test_interrupted_it_takes_its_workers_along(workplace):
    command = [COMMAND, "demo", "--queue", "--urls", "5000", "--hosts", "50", "--delay", "1"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=workplace,
        env=environment(TMPDIR=str(workplace), PYTHONUNBUFFERED="1"),
        text=True,
    )
    while "workers start" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted\n")
    assert list(workplace.iterdir()) == []
    assert [
        each for each in psutil.process_iter(["cmdline"]) if str(workplace) in " ".join(each.info["cmdline"] or ())
    ] == []


def test_a_directory_that_cannot_be_used_is_told(silkline, workplace):
    (workplace / "file").write_text("")
    answer = silkline("demo", *SMALL, "--dir", "file")
    assert answer.code == 2
    assert "not a directory" in answer.err


def test_a_worker_that_fails_by_itself_is_told(silkline, workplace):
    folder = workplace / "broken"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\nif 'queue_worker' in ' '.join(sys.orig_argv): raise SystemExit('out of order')\n"
    )
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    answer = silkline("demo", *SMALL, PYTHONPATH=path, TMPDIR=str(workplace))
    assert answer.code == 2
    # All four fail; which of them is dead at the first look is chance.
    assert re.fullmatch(r"error: worker [1-4] has failed: SystemExit: out of order\n", answer.err)


@pytest.fixture
def evidence(valkey, crawl):
    """A crawl of ten URLs, all done by one worker, with its journal."""
    urls = [f"https://h{i % 2}.example/{i}" for i in range(10)]
    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        stats = frontier.stats()
    stats = msgspec.structs.replace(stats, accepted=10, done=10)
    return urls, Journal([(i * 1000, url) for i, url in enumerate(urls)], list(urls)), stats


def test_the_proof_holds_when_all_is_well(evidence):
    urls, journal, stats = evidence
    proof = prove(urls, [journal], None, stats, 2.0)
    assert proof.sound
    assert proof.closest_starts == 2.0


def test_the_proof_finds_what_was_lost(evidence):
    urls, journal, stats = evidence
    journal.done.pop()
    proof = prove(urls, [journal], None, stats, 1.0)
    assert proof.lost == [urls[-1]]
    assert not proof.sound


def test_the_proof_finds_what_nobody_enqueued(evidence):
    urls, journal, stats = evidence
    journal.done.append("https://elsewhere.example/")
    assert not prove(urls, [journal], None, stats, 1.0).sound


@pytest.mark.parametrize("change", [{"done": 9}, {"leased": 1}, {"dead": 1}, {"accepted": 11}])
def test_the_proof_does_not_hold_when_the_frontier_counts_otherwise(evidence, change):
    urls, journal, stats = evidence
    assert not prove(urls, [journal], None, msgspec.structs.replace(stats, **change), 1.0).sound


def test_the_proof_finds_impoliteness(evidence):
    urls, journal, stats = evidence
    proof = prove(urls, [journal], None, stats, 2.1)
    assert not proof.polite
    assert not proof.sound


def test_the_proof_tells_the_kill_from_other_reasons(evidence):
    urls, journal, stats = evidence
    killed = Journal([(90_000, urls[3])], [])
    assert prove(urls, [journal, killed], 1, stats, 1.0).first_held_by_killed
    other = Journal([(90_000, urls[3])], [urls[3]])
    proof = prove(urls, [journal, other], None, stats, 1.0)
    assert (proof.handed_out_twice, proof.first_held_by_killed, proof.done_twice) == ([urls[3]], False, 1)


def test_a_demo_worker_that_is_told_to_go_leaves_no_lease_behind(valkey, crawl, workplace):
    with SyncFrontier.open(valkey.url, crawl=crawl) as frontier:
        frontier.enqueue([f"https://h{i}.example/" for i in range(20_000)])
        command = [
            sys.executable,
            "-m",
            "silkline.cli.demo.queue_worker",
            valkey.url,
            crawl,
            str(workplace / "journal"),
        ]
        worker = subprocess.Popen(command, env=environment())
        while frontier.stats().done < 500:
            assert worker.poll() is None
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait(10) == 0
        assert frontier.stats().leased == 0
