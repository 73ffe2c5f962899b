"""A real S3 API on loopback: moto, in a process of its own."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from urllib.parse import urlsplit

from tests.servers import free_port


class S3Server:
    def __init__(self):
        self.port = free_port()
        self.process = None

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 100
        while not self.ask("GET", "/"):
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return self

    def ask(self, verb, path):
        """The status; None when nobody answers."""
        connection = http.client.HTTPConnection(urlsplit(self.endpoint).netloc, timeout=100)
        try:
            connection.request(verb, path)
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def create(self, bucket):
        assert self.ask("PUT", f"/{bucket}") == 200
        return bucket

    def stop(self):
        self.process.terminate()
        self.process.wait(100)

    def out(self, bucket, prefix="items", **options):
        given = {
            "endpoint": self.endpoint,
            "access_key_id": "me",
            "secret_access_key": "hush-hush",
            "region": "us-east-1",
        }
        query = "&".join(f"{name}={value}" for name, value in {**given, **options}.items())
        return f"s3://{bucket}/{prefix}?{query}"
