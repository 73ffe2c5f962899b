"""Signals: whatever a client is just doing when one comes, it neither crashes nor takes one answer for another."""

import subprocess
import sys
from pathlib import Path


def test_a_client_that_is_interrupted_all_the_time_still_works(valkey, crawl):
    program = Path(__file__).with_name("interrupted.py")
    command = [sys.executable, program, valkey.url, crawl]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stdout) == (0, "https://a.example/ 1 True\n"), ran.stderr
