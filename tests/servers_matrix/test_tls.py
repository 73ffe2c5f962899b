"""TLS, with a certificate that the test makes itself; only Debian's Redis was built with it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from silkline import Politeness
from silkline.errors import StoreUnavailable
from tests.chaos.subject import crawl_all, open_subject
from tests.servers import Server, binary, free_port

AT_ONCE = Politeness(delay=0, concurrency=1000)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key, and a certificate for 127.0.0.1 that vouches for itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([*command.split(), *more], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module", params=["single", "cluster"])
def guarded(request, certificate):
    if binary("redis-7.0") is None:
        pytest.skip("redis-7.0 is not installed")
    files = {"tls_cert_file": certificate / "cert.pem", "tls_key_file": certificate / "key.pem"}
    tls = {**files, "tls_ca_cert_file": certificate / "cert.pem", "tls_auth_clients": "no", "tls_port": free_port()}
    server = Server("redis-7.0", tcp=True, **tls, requirepass="s3cr3t")
    if request.param == "cluster":
        server.config |= {"cluster_enabled": "yes", "tls_cluster": "yes", "cluster_port": free_port()}
    server.start()
    if request.param == "cluster":
        with server.client() as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                pass
    yield f"rediss{'+cluster' if request.param == 'cluster' else ''}://:s3cr3t@127.0.0.1:{tls['tls_port']}"
    server.remove()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_crawl_over_tls_with_an_authority_of_its_own(guarded, certificate, crawl, kind):
    url = f"{guarded}?ssl_ca_certs={certificate / 'cert.pem'}"
    frontier = await open_subject(kind, url=url, crawl=crawl, politeness=AT_ONCE, shards=2)
    await frontier.enqueue("https://a.example/")
    links = {"https://a.example/": ["https://b.example/", "https://c.example/"]}
    assert len(await crawl_all(frontier, links)) == 3
    assert await frontier.claim(1, wait=0.1) == []  # the bell is encrypted too
    await frontier.close()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_certificate_that_nobody_vouches_for_is_refused(guarded, crawl, kind, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.1)
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate") as caught:
        await open_subject(kind, url=guarded, crawl=crawl)
    assert "s3cr3t" not in str(caught.value)
