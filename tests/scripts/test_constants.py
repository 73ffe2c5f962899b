"""Numbers that Python and the scripts both know are the same, and so are the groups of reasons."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from silkline.core import proxy_health
from silkline.core.lease import ISOLATE_FOR
from silkline.frontier.admin_verbs.audit import KEPT
from silkline.frontier.admin_verbs.dead_letters import ALL_REASONS, CANCELLED_CALL, LONGEST_NAME, reason_group
from silkline.frontier.admin_verbs.stats import LONG
from silkline.frontier.store import bloom, record
from silkline.frontier.store.settings import (
    BLOCKS_SCHEMA,
    DEFAULT_HOST_SHARE,
    LEAST_HOST_SHARE,
    NEWEST_SCHEMA,
    OPEN_AGAIN,
    SCHEMA,
)
from silkline.frontier.transport.calls import KEPT_SECONDS
from silkline.frontier.user_keys.inbox import MOST_BYTES
from silkline.frontier.verbs.claim import SUSPECT, TRIED, VACATED
from silkline.frontier.verbs.history import COARSE, FINE, MOST_HANDLERS, OTHERS
from silkline.frontier.verbs.hosts import MOST_COUNTED
from silkline.frontier.verbs.settle import one_line
from silkline.frontier.verbs.workers import KEEP_LOST
from silkline.testing import clock as memory_time
from silkline.testing.memory import crawl as memory_crawl
from silkline.testing.memory import host as memory_host

FOLDER = Path(str(files("silkline.frontier"))) / "scripts"


def constant(client, file, name):
    """The value of a constant of a script, as text."""
    lines = (FOLDER / file).read_text().splitlines()
    [line] = [line for line in lines if re.match(rf"local ([A-Z_]+, )*{name}\b.* = ", line)]
    return client.eval(f"{line}\nreturn tostring({name})", 0)


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("lib/entries.lua", "TRIED", TRIED),
        ("lib/entries.lua", "VACATED", VACATED),
        ("lib/entries.lua", "SUSPECT", SUSPECT),
        ("audit/append_audit.lua", "KEPT", KEPT),
        ("lib/status_counts.lua", "MOST_COUNTED", MOST_COUNTED),
        ("history/add_history.lua", "MOST_HANDLERS", MOST_HANDLERS),
        ("history/add_history.lua", "OTHERS", OTHERS),
        ("workers/join.lua", "KEEP_LOST_MS", round(KEEP_LOST * 1000)),
        ("proxies/share_proxies.lua", "RECENTLY_MS", round(proxy_health.RECENTLY * 1000)),
        ("proxies/share_proxies.lua", "CHECK_LIMIT_MS", round(proxy_health.CHECK_LIMIT * 1000)),
        ("proxies/share_proxies.lua", "MOST_COUNTED", proxy_health.MOST_COUNTED),
        ("proxies/share_proxies.lua", "LONGER", proxy_health.LONGER),
        ("lib/proxies.lua", "KNOWN_FOR_MS", round(proxy_health.KNOWN_FOR * 1000)),
        ("lib/reasons.lua", "LONGEST_NAME", LONGEST_NAME),
        ("lib/dead_store.lua", "MOST_REASONS", ALL_REASONS),
        ("dead_letters/revive.lua", "CANCELLED", CANCELLED_CALL),
        ("lib/ledger.lua", "SCHEMA", SCHEMA),
        ("lib/ledger.lua", "NEWEST_SCHEMA", NEWEST_SCHEMA),
        ("lib/bloom.lua", "BLOCKS_SCHEMA", BLOCKS_SCHEMA),
        ("lib/bloom.lua", "FIRST_ERROR", bloom.FIRST_ERROR),
        ("lib/bloom.lua", "LATER_ERROR", bloom.LATER_ERROR),
        ("lib/bloom.lua", "LEAST_CAPACITY", bloom.LEAST_CAPACITY),
        ("lib/bloom.lua", "SMALL_BLOCK", bloom.SMALL_BLOCK),
        ("lib/bloom.lua", "LARGE_BLOCK", bloom.LARGE_BLOCK),
        ("lib/bloom.lua", "ONE_BLOCK", bloom.ONE_BLOCK),
        ("lib/bloom.lua", "SMALL_BLOCKS", bloom.SMALL_BLOCKS),
        ("lib/share.lua", "SHARE", DEFAULT_HOST_SHARE),
        ("lib/share.lua", "LEAST_SHARE", LEAST_HOST_SHARE),
        ("lib/suspects.lua", "ISOLATE_MS", round(ISOLATE_FOR * 1000)),
        ("lib/buckets.lua", "DIGITS", record._DIGITS),
        ("lib/buckets.lua", "LEAST", record._LEAST),
        ("lib/buckets.lua", "RANGE", record._RANGE),
        ("enqueue/enqueue.lua", "OPEN_AGAIN", OPEN_AGAIN),
        ("stats/snapshot.lua", "LONG_MS", LONG),
        ("user_keys/inbox_take.lua", "MOST_BYTES", MOST_BYTES),
        ("claim/claim.lua", "BATCH", memory_crawl.BATCH),
        ("settle/settle.lua", "MANY", memory_crawl.MANY),
        ("lib/slow_down.lua", "LEAST_SLOWED", memory_host.LEAST_SLOWED),
        ("lib/slow_down.lua", "MOST_SLOWED", memory_host.MOST_SLOWED),
        ("lib/hosts.lua", "HALF_LIFE", memory_host.HALF_LIFE),
        ("lib/robots.lua", "STALE", memory_crawl.STALE),
        ("lib/shard_clock.lua", "MOMENT", memory_time.MOMENT),
        ("lib/struck.lua", "MOST_ATTEMPTS", memory_crawl.MOST_ATTEMPTS),
        ("lib/struck.lua", "MOST_STRUCK", memory_crawl.MOST_STRUCK),
        ("lib/suspects.lua", "ISOLATE_MS", memory_crawl.ISOLATE),
        ("lib/suspects.lua", "LOOK_AGAIN_MS", memory_crawl.LOOK_AGAIN),
    ],
)
def test_a_constant_has_the_same_value_in_python_and_in_lua(client, file, name, value):
    assert constant(client, file, name) == (value if isinstance(value, bytes) else str(value).encode())


@pytest.mark.parametrize("ring", [FINE, COARSE], ids=lambda ring: ring.name)
def test_the_rings_of_the_history_are_the_same(client, ring):
    lines = (FOLDER / "lib/history.lua").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("local RINGS")]
    told = client.eval(f"{line}\nreturn {{RINGS.{ring.name}.step, RINGS.{ring.name}.size}}", 0)
    assert told == [ring.step * 1000, ring.size]


def test_clients_forget_the_name_of_a_call_before_the_server_forgets_its_reply(client):
    assert int(constant(client, "lib/idempotency.lua", "KEEP_REPLY_MS")) > KEPT_SECONDS * 1000


def test_a_restored_ledger_ranks_hosts_as_the_others_do(client):
    assert constant(client, "fsck/restore.lua", "RANK") == constant(client, "lib/rank.lua", "RANK")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@example(reason="https://(handler a: KeyError (b.py:1): handler a: KeyError (b.py:1): ", host="a.example")
@example(reason="", host="")
@example(reason="https://a.example/1", host="a.example")
@example(reason="handler product: KeyError (books.py:14): 'price' on https://a.example/1", host="a.example")
@example(reason="no answer from https://a.example/\u00e4 and http://b.example", host="b.example")
@example(reason="connect: no connection to a.example:443: connection refused", host="a.example")
@example(reason="\u20ac" * 200, host="")
@given(
    reason=st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "handler a: KeyError (b.py:1): ",
                    "https://",
                    "http://x",
                    " ",
                    "(",
                    ")",
                    ": ",
                    "…",
                    "dns: ",
                    ":80",
                    ".b",
                    "a.example",
                ]
            ),
            st.sampled_from(["1.2.3.4", "5 bytes", "1,5 bytes", "[::1]", "-", "9"]),
            st.text(max_size=80),
        ),
        max_size=12,
    ).map("".join),
    host=st.sampled_from(["a.example", "example", "1.2.3.4", "[::1]", "a", ".", ""]),
)
def test_python_and_lua_put_a_reason_into_the_same_group(client, reason, host):
    reason = one_line(reason)  # as reasons are stored
    script = (FOLDER / "lib/reasons.lua").read_text() + "\nreturn reason_group(ARGV[1], ARGV[2])"
    assert client.eval(script, 0, reason, host).decode() == reason_group(reason, host)
