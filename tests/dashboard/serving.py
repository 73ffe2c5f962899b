"""A dashboard that is served for real, on a free port of loopback, and a visitor who speaks plain HTTP to it."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlencode

import uvicorn

from silkline.dashboard.slow_queries import SlowQueries

TOKEN = "a token of the tests, long enough"


def patient(dashboard):
    """One whose pages wait for their answers, however long that takes on a busy machine."""
    dashboard.slow_queries = SlowQueries(patience=20)
    return dashboard


class Serving:
    """Serves an ASGI application until it is stopped."""

    def __init__(self, app):
        self.app = app
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        config = uvicorn.Config(app, log_level="error", lifespan="on", ws="none", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(100)
        self._socket.close()


class Answer(NamedTuple):
    status: int
    headers: dict
    text: str

    @property
    def words(self):
        """What people read."""
        reader = Reader()
        reader.feed(self.text)
        return " ".join("".join(reader.text).split())

    @property
    def csrf(self):
        return re.search(r'name="csrf" value="([0-9a-f]+)"', self.text)[1]


class Reader(HTMLParser):
    """Takes a page apart, as a browser would."""

    def __init__(self):
        super().__init__()
        self.text, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.text.append(data)


class Visitor:
    """Keeps its cookie; follows nothing by itself."""

    def __init__(self, port, base="", address="127.0.0.1"):
        self.port, self._base, self._address = port, base, address
        self.cookie = ""
        self.last_cookie = ""

    def get(self, path, **headers):
        return self._ask("GET", path, None, headers)

    def post(self, path, form, **headers):
        body = urlencode(form).encode()
        return self._ask("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded", **headers})

    def _ask(self, method, path, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100, source_address=(self._address, 0))
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent.setdefault("Accept", "text/html")
        if self.cookie:
            sent["Cookie"] = self.cookie
        connection.request(method, self._base + path, body, sent)
        got = connection.getresponse()
        answer = Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read().decode())
        connection.close()
        if "set-cookie" in answer.headers:
            self.last_cookie = answer.headers["set-cookie"]
            self.cookie = self.last_cookie.partition(";")[0]
        return answer

    def sign_in(self, token=TOKEN, name="mira", **fields):
        return self.post("/sign-in", {"token": token, "name": name, **fields})
