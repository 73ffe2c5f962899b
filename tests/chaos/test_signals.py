"""Signals: whatever a client is just doing when one comes, it neither crashes nor takes one answer for another."""

import subprocess
import sys
from pathlib import Path


def test_a_client_that_is_interrupted_all_the_time_still_works(valkey, crawl):
    program = Path(__file__).with_name("interrupted.py")
    command = [sys.executable, program, valkey.url, crawl]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stdout) == (0, "https://a.example/ 1 True\n"), ran.stderr


STORM = """
import random, signal
from silkline.frontier.transport.sync.concurrency import SyncLimiter

class Interrupted(BaseException):
    pass

def ring(*_):
    raise Interrupted

signal.signal(signal.SIGALRM, ring)
places = SyncLimiter(2)
for _ in range(3000):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00002, 0.0005))
        while True:
            with places:
                pass
    except Interrupted:
        assert not places._lock.locked()
"""


def test_an_interruption_leaves_no_lock_behind():
    subprocess.run([sys.executable, "-c", STORM], timeout=100, check=True)
