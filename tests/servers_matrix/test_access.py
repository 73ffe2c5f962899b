"""Logins, rights, addresses and servers that cannot be used: each refused at once, in words, and without the password."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from silkline import Budget, Frontier, Politeness, SyncFrontier
from silkline.errors import ConfigError, StoreUnavailable
from silkline.frontier.transport.redis_url import read_url
from silkline.frontier.transport.server_info import check_server, read_server
from tests.chaos.subject import open_subject
from tests.servers import KINDS, Server, binary, free_port
from tests.servers_matrix.test_every_verb import every_verb

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "secure-redis.md"
SECRET = "s3cr3t"


@pytest.fixture(params=["async", "sync"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def guarded():
    """A server with users: `silkline` as the manual has it, `nobody` who may do nothing, and no other way in."""
    server = Server("valkey", tcp=True).start()
    with server.client() as client:
        client.execute_command(*rule().split())
        client.execute_command("ACL", "SETUSER", "nobody", "on", f">{SECRET}")
        client.execute_command("ACL", "SETUSER", "stranger", "on", f">{SECRET}", "~other:*", "+@all")
        client.execute_command("ACL", "SETUSER", "default", f">{SECRET}")
    yield server
    server.remove()


def rule():
    """What the manual says, with a password."""
    return re.search(r"^ACL SETUSER.*$", PAGE.read_text(), re.MULTILINE)[0].replace("PASSWORD", SECRET)


@pytest.mark.parametrize("server_kind", KINDS)
async def test_the_user_of_the_manual_can_do_everything(server_kind, crawl, tmp_path):
    if binary(server_kind) is None:
        pytest.skip(f"{server_kind} is not installed")
    server = Server(server_kind, tcp=True).start()
    try:
        more = " +cluster|slots" if server.cluster else ""
        with server.client() as client:
            client.execute_command(*(rule() + more).split())
        url = f"redis{'+cluster' if server.cluster else ''}://silkline:{SECRET}@127.0.0.1:{server.port}"
        budget = Budget(pages=1000, pages_per_host=1000, depth=9)
        settings = {"politeness": Politeness(delay=0, concurrency=1000), "budget": budget, "shards": 4}
        async with await Frontier.open(url, crawl=crawl, overflow=tmp_path / "overflow", **settings) as frontier:
            await every_verb(frontier)
            await frontier.admin.remove()
        with SyncFrontier.open(url, crawl=f"{crawl}-bloom", seen="bloom") as frontier:
            frontier.enqueue("https://a.example/")
            frontier.complete(frontier.claim(1, wait=5)[0])
    finally:
        server.remove()


@pytest.mark.parametrize("login", [f"silkline:wrong-{SECRET}@", f"nobody:{SECRET}@", f"stranger:{SECRET}@", ""])
async def test_a_login_that_does_not_do(guarded, kind, crawl, login):
    with pytest.raises(ConfigError, match="does not allow it") as caught:
        await open_subject(kind, url=f"redis://{login}127.0.0.1:{guarded.port}", crawl=crawl)
    assert f"127.0.0.1:{guarded.port}" in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_rights_taken_away_while_running(guarded, kind, crawl):
    frontier = await open_subject(kind, url=f"redis://silkline:{SECRET}@127.0.0.1:{guarded.port}", crawl=crawl)
    with guarded.client(password=SECRET) as client:
        client.execute_command("ACL", "SETUSER", "silkline", "-hmget")
        with pytest.raises(ConfigError, match="does not allow it"):
            await frontier.enqueue("https://a.example/")
        client.execute_command("ACL", "SETUSER", "silkline", "+hmget")
    await frontier.enqueue("https://a.example/")
    await frontier.close()


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster", "redis+sentinel"])
async def test_nobody_at_home(kind, crawl, scheme, monkeypatch):
    monkeypatch.setattr("silkline.frontier.transport.connection.RETRY_SECONDS", 0.2)
    path = "/main" if scheme == "redis+sentinel" else ""
    with pytest.raises(StoreUnavailable) as caught:
        await open_subject(kind, url=f"{scheme}://:{SECRET}@127.0.0.1:{free_port()}{path}", crawl=crawl)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        f"someone:{SECRET}@localhost:6379",
        f"http://someone:{SECRET}@localhost",
        f"redis://someone:{SECRET}/{SECRET}@localhost:6379",
        f"redis://:{SECRET}@localhost:port",
        f"redis://:{SECRET}@localhost:99999999",
        f"redis://:{SECRET}@localhost?socket_timeout=soon",
        f"redis://:{SECRET}@localhost?no_such_option=1",
        f"redis+cluster://:{SECRET}@localhost/3",
        f"redis+sentinel://:{SECRET}@localhost:26379",
        f"redis+sentinel://:{SECRET}@localhost:{SECRET}/main",
        f"redis+sentinel://:{SECRET}@localhost/main/first",
        "",
        7,
    ],
)
async def test_addresses_that_are_none(kind, crawl, url):
    with pytest.raises(ConfigError) as caught:
        await open_subject(kind, url=url, crawl=crawl)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "public"),
    [
        (f"redis://:{SECRET}@h:1/0", "redis://***@h:1/0"),
        (f"redis://me:{SECRET}@{SECRET}@h", "redis://***@h"),
        (f"unix:///run/r.sock?db=1&password={SECRET}", "unix:///run/r.sock?db=1&password=***"),
        (f"valkeys+cluster://:{SECRET}@h", "rediss://***@h"),
        (f"redis+sentinel://:{SECRET}@a,b/m/2?sentinel_password={SECRET}", "redis://***@m/2?sentinel_password=***"),
    ],
)
def test_a_password_is_never_shown(url, public):
    assert read_url(url).public == public


def test_sentinels_are_read_with_and_without_ports():
    target = read_url("rediss+sentinel://me:x@a,b:1,[::1]:2,[fe80::1]/main/3?ssl_ca_certs=/ca")
    assert target.sentinels == (("a", 26379), ("b", 1), ("::1", 2), ("fe80::1", 26379))
    assert (target.kind, target.service, target.url) == ("sentinel", "main", "rediss://me:x@main/3?ssl_ca_certs=/ca")


async def test_a_server_that_would_evict_with_a_limit_is_used_with_one_warning(own_server, kind, crawl, caplog):
    server = own_server(maxmemory="0", maxmemory_policy="allkeys-lru")
    for _ in range(2):
        await (await open_subject(kind, url=server.url, crawl=crawl)).close()
    (warning,) = (record.getMessage() for record in caplog.records if "would evict" in record.getMessage())
    assert warning.startswith(f"{read_url(server.url).public} would evict requests if its memory were limited")
    assert warning.endswith("run CONFIG SET maxmemory-policy noeviction")


async def test_a_server_that_evicts_is_refused(own_server, kind, crawl):
    server = own_server(maxmemory="100mb", maxmemory_policy="allkeys-lru")
    with pytest.raises(ConfigError, match=r"allkeys-lru.*noeviction"):
        await open_subject(kind, url=server.url, crawl=crawl)
    with server.client() as client:
        client.config_set("maxmemory-policy", "volatile-lru")  # nothing but remembered replies has an expiry
    await (await open_subject(kind, url=server.url, crawl=crawl)).close()


@pytest.mark.parametrize(
    ("info", "fine"),
    [
        ({"redis_version": "6.2.0"}, True),
        ({"redis_version": "6.0.16"}, False),
        ({"redis_version": "8.10.1"}, True),
        ({"redis_version": "255.255.255"}, True),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "7.2.11"}, True),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "7.1.0"}, False),
        ({}, False),
    ],
)
def test_servers_that_are_too_old_are_refused(info, fine):
    refused = pytest.raises(ConfigError, match=r"needs Redis 6\.2 or Valkey 7\.2")
    with nullcontext() if fine else refused:
        check_server(read_server(info), "redis://h")


async def test_a_server_that_is_no_cluster(guarded, kind, crawl):
    url = f"redis+cluster://silkline:{SECRET}@127.0.0.1:{guarded.port}"
    with guarded.client(password=SECRET) as client:
        client.execute_command("ACL", "SETUSER", "silkline", "+cluster|slots")
    with pytest.raises(ConfigError, match="is not a cluster"):
        await open_subject(kind, url=url, crawl=crawl)
