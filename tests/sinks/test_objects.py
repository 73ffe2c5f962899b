"""Object stores: a real S3 API, which goes away and is overloaded."""

from __future__ import annotations

import asyncio
import http.server
import re
import threading

import obstore
import pytest
from obstore.store import from_url

from silkline.errors import ConfigError, SinkUnavailable
from silkline.sinks import open_sink
from tests.sinks.making import record
from tests.sinks.s3_server import S3Server


async def test_each_batch_is_an_object_whose_name_reports_its_time(s3):
    sink = open_sink(s3.out(s3.create("named"), "a/b"))
    await sink.write([record(0), record(1)])
    await sink.write([record(2)])
    await sink.close()
    config = {"endpoint": s3.endpoint, "access_key_id": "x", "secret_access_key": "x", "region": "us-east-1"}
    store = from_url("s3://named", config=config, client_options={"allow_http": True})
    objects = [one["path"] for batch in obstore.list(store) for one in batch]
    assert len(objects) == 2
    assert all(re.fullmatch(r"a/b/\d{8}T\d{6}\.\d{6}Z-\d+-\w{8}-\d\.jsonl\.gz", name) for name in objects)


def test_a_bucket_that_is_not_there_is_an_error_of_the_settings(s3):
    with pytest.raises(ConfigError, match="s3://not-there/items cannot be written"):
        open_sink(s3.out("not-there"))


async def test_the_usual_variables_of_the_environment_count(s3, monkeypatch):
    variables = {"ENDPOINT_URL": s3.endpoint, "ACCESS_KEY_ID": "me", "SECRET_ACCESS_KEY": "hush", "REGION": "us-east-1"}
    for name, value in variables.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    sink = open_sink(f"s3://{s3.create('from-environment')}/x")
    await sink.write([record(0)])
    await sink.close()


async def test_a_store_that_goes_away_is_found_again():
    server = S3Server().start()
    sink = open_sink(server.out(server.create("away")))
    server.stop()
    with pytest.raises(SinkUnavailable, match="s3://away/items cannot be written") as refused:
        await sink.write([record(0)])
    assert "hush" not in str(refused.value)
    server.start().create("away")
    await sink.write([record(0)])
    await sink.close()
    server.stop()


class Overloaded(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_GET  # noqa: N815 - the server looks for this name

    def log_message(self, *_):
        pass


async def test_a_store_that_is_overloaded_is_unavailable():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Overloaded) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with pytest.raises(SinkUnavailable, match="503"):
                await asyncio.to_thread(
                    open_sink,
                    f"s3://bucket/x?endpoint=http://127.0.0.1:{server.server_port}&region=x&access_key_id=a&secret_access_key=b",
                )
        finally:
            server.shutdown()
            thread.join()
