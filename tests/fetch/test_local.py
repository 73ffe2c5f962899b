"""Failures of this machine are told apart from those of a web server, and are not the site's."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from silkline.errors import HostUnreachable, LocalFailure
from silkline.fetch import local, resolver
from silkline.fetch.guard import Guard, read_target
from silkline.fetch.local import RESERVED, connections, pages
from silkline.fetch.resolver import SHARE, SILENT, SystemResolver
from silkline.fetch.wreq_fetcher import ClientPool
from tests.patched import patch_for

STARVED = Path(__file__).with_name("starved.py")


def test_a_fetch_without_file_descriptors_is_a_failure_of_this_machine(kind, hostile):
    urls = hostile.at("/status/200"), hostile.at("/status/200", "a.localhost")
    command = [sys.executable, str(STARVED), kind, *urls]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == "200, LocalFailure descriptors, LocalFailure descriptors, 200"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EMFILE, "descriptors"),
        (errno.ENFILE, "descriptors"),
        (errno.ENOMEM, "memory"),
        (errno.ENOBUFS, "memory"),
        (errno.EADDRNOTAVAIL, "ports"),
        (errno.ENETUNREACH, "network"),
        (errno.ECONNREFUSED, None),
        (errno.ECONNRESET, None),
        (None, None),
    ],
)
def test_which_errors_are_those_of_this_machine(number, kind, monkeypatch):
    monkeypatch.setattr(local, "has_network", lambda: False)
    failure = local.local_failure(number)
    assert (failure and failure.kind) == kind


def test_a_host_without_a_route_is_at_fault_if_others_have_one(monkeypatch):
    monkeypatch.setattr(local, "has_network", lambda: True)
    assert local.local_failure(errno.ENETUNREACH) is None


def limits_after(code, soft, hard):
    """Run *code* in a process with these limits; return what it prints."""
    command = [sys.executable, "-c", f"from silkline.fetch.local import *; {code}"]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    ).stdout.strip()


def test_the_soft_limit_is_raised_to_the_hard_one():
    assert limits_after("raise_limit(); print(limit())", 256, 512) == "512"
    assert limits_after("raise_limit(); print(limit())", 512, 512) == "512"


def test_pages_and_connections_leave_descriptors_for_others():
    assert limits_after("print(pages(), connections())", 256, 512) == f"{(256 - RESERVED) // 2} {(256 - RESERVED) // 2}"
    assert limits_after("print(pages(), connections())", 20, 512) == "1 1"
    assert connections() <= pages()


def test_the_least_recently_used_clients_go_first():
    clients = ClientPool(lambda host, addresses: host, 3)
    for host in ("a", "b", "c", "a", "d"):
        clients.give_back(clients.take(host, ()))
    assert set(clients._host_clients) == {"c", "a", "d"}
    assert clients.connections == 3


def test_a_client_in_use_stays_until_it_is_idle():
    clients = ClientPool(lambda host, addresses: host, 2)
    taken = [clients.take(host, ()) for host in ("a", "a", "b")]
    assert clients.connections == 3
    clients.give_back(taken[2])
    assert (set(clients._host_clients), clients.connections) == ({"a"}, 2)
    clients.drop("a")
    for kept in taken[:2]:
        clients.give_back(kept)
    assert (len(clients), clients.connections) == (0, 0)


# ── looking up names ──


class Dns:
    """A DNS for tests: names to addresses, to exceptions, or to silence until the test ends."""

    def __init__(self, **sites):
        self._sites = sites
        self._end = threading.Event()
        self._lock = threading.Lock()
        self.running = self.most = 0
        self.asked = []

    def look_up(self, name):
        with self._lock:
            self.asked.append(name)
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            answer = self._sites.get(name.split(".")[-2], ["93.184.216.34"])
            if answer == "silence":
                self._end.wait()
            if isinstance(answer, Exception):
                raise answer
            return answer
        finally:
            with self._lock:
                self.running -= 1

    def end(self):
        self._end.set()


@pytest.fixture
def dns():
    made = []

    def make(**sites):
        made.append(Dns(**sites))
        return made[-1]

    yield make
    for one in made:
        one.end()


AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def end_of(resolving):
    try:
        return list(await resolving)
    except (HostUnreachable, LocalFailure) as error:
        return error.kind


async def test_silent_names_of_one_site_leave_threads_for_others(dns):
    server = dns(silent="silence")
    resolver = SystemResolver(timeout=60, lookup=server.look_up)
    silent = [asyncio.create_task(end_of(resolver.resolve(f"a{n}.silent.test"))) for n in range(200)]
    good = await asyncio.gather(*(resolver.resolve(f"www.good{n}.test") for n in range(50)))
    assert set(map(tuple, good)) == {("93.184.216.34",)}
    assert len([name for name in server.asked if "silent" in name]) == SHARE
    server.end()
    for task in silent:
        task.cancel()
    await asyncio.gather(*silent, return_exceptions=True)
    await resolver.close()


async def test_a_site_whose_name_servers_do_not_reply_is_refused_at_once_for_a_while(dns, monkeypatch):
    server = dns(silent=AGAIN)
    resolver_ = SystemResolver(lookup=server.look_up)
    await resolver_.resolve("www.good.test")
    for number in range(3 * SILENT):
        with pytest.raises(HostUnreachable, match=f"no address for a{number}.silent.test") as caught:
            await resolver_.resolve(f"a{number}.silent.test")
        assert caught.value.kind == "dns"
    assert len([name for name in server.asked if "silent" in name]) == SILENT
    assert await resolver_.resolve("ftp.good.test")
    patch_for(monkeypatch, resolver, "time", monotonic=lambda: time.monotonic() + 60)
    assert await end_of(resolver_.resolve("b.silent.test")) == "dns"
    assert "b.silent.test" in server.asked  # after a while it is asked again
    await resolver_.close()


async def test_a_name_that_does_not_exist_is_no_silence(dns):
    server = dns(empty=UNKNOWN)
    resolver = SystemResolver(lookup=server.look_up)
    for number in range(3 * SILENT):
        assert await end_of(resolver.resolve(f"a{number}.empty.test")) == "dns"
    assert len(server.asked) == 3 * SILENT
    await resolver.close()


@pytest.mark.parametrize("good_before", [True, False])
async def test_a_resolver_that_fails_for_every_name_is_a_failure_of_this_machine(dns, good_before):
    server = dns(one=["93.184.216.34"], two=AGAIN)
    resolver = SystemResolver(lookup=server.look_up)
    if good_before:
        await resolver.resolve("www.one.test")
    server._sites = {"one": AGAIN, "two": AGAIN, "silkline": AGAIN}
    for _ in range(2 * SILENT):
        assert await end_of(resolver.resolve("www.two.test")) == "resolver"
    await resolver.close()


class Forwarder(Dns):
    """A resolver of this machine that replies from its cache, whatever happens to the servers that it asks."""

    def __init__(self, cached, **sites):
        super().__init__(**sites)
        self._cached = cached
        self.upstream = True

    def look_up(self, name):
        if name in self._cached:
            return ["93.184.216.34"]
        if not self.upstream:
            raise AGAIN
        if name.startswith("silkline-"):
            self.asked.append(name)
            raise UNKNOWN
        return super().look_up(name)


@pytest.mark.parametrize("good_before", [True, False])
async def test_a_resolver_that_has_lost_its_own_servers_is_a_failure_of_this_machine(good_before):
    server = Forwarder(["www.good.test", "silkline.invalid"])
    resolver_ = SystemResolver(lookup=server.look_up)
    if good_before:
        await resolver_.resolve("www.good.test")
    server.upstream = False
    ends = [await end_of(resolver_.resolve(f"www.site{number}.test")) for number in range(20)]
    assert ends == ["dns"] * (resolver.MANY - 1) + ["resolver"] * (20 - resolver.MANY + 1)
    server.upstream = True
    assert await resolver_.resolve("www.site3.test")
    await resolver_.close()


async def test_sites_that_fail_together_are_at_fault_while_others_can_be_looked_up():
    """Else a crawl of which only such sites are left would never end."""
    server = Forwarder([], **{f"bad{number}": AGAIN for number in range(20)})
    resolver_ = SystemResolver(lookup=server.look_up)
    await resolver_.resolve("www.good.test")
    for number in range(20):
        assert await end_of(resolver_.resolve(f"www.bad{number}.test")) == "dns"
    assert [name.partition(".")[2] for name in server.asked if name.startswith("silkline-")] == ["good.test"]
    await resolver_.close()


async def test_a_machine_without_network_is_no_fault_of_a_name(dns, monkeypatch):
    monkeypatch.setattr(resolver, "has_network", lambda: False)
    resolver_ = SystemResolver(lookup=dns(two=AGAIN).look_up)
    assert await end_of(resolver_.resolve("www.two.test")) == "network"
    await resolver_.close()


async def test_a_failure_of_this_machine_is_not_remembered_by_the_guard(dns):
    server = dns(two=OSError(errno.EMFILE, "Too many open files"))
    guard = Guard(resolver=SystemResolver(lookup=server.look_up))
    target = read_target("http://www.two.test/")
    assert await end_of(guard.addresses(target)) == "descriptors"
    server._sites = {}
    assert len(await guard.addresses(target)) == 1
    await guard.close()
