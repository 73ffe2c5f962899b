"""Every script keeps the contract of its header."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from silkline.frontier.store.keys import SHARD_KEYS
from silkline.frontier.transport.command import load, script_names

FRONTIER = Path(str(files("silkline.frontier")))
FOLDER = FRONTIER / "scripts"
NAMES = script_names()
LIBRARY = sorted(path.name.removesuffix(".lua") for path in (FOLDER / "lib").iterdir())
INCLUDE = re.compile(r'^--- @include "(\w+)"$', re.MULTILINE)

FUNCTION = re.compile(r"^ *local function (\w+)", re.MULTILINE)

every_script = pytest.mark.parametrize("name", NAMES)


def path_of(name):
    [path] = [path for path in FOLDER.glob(f"*/{name}.lua") if path.parent.name != "lib"]
    return path


def text_of(name):
    return path_of(name).read_text()


@every_script
def test_its_folder_is_named_like_the_module_that_sends_it(name):
    topic = path_of(name).parent.name
    senders = {
        path.parent.name if path.parent.name == "user_keys" else path.stem
        for path in FRONTIER.rglob("*.py")
        if f'load("{name}")' in path.read_text()
    }
    assert senders == {topic}


def split(name):
    """Header lines, the lines that name the arguments, and the rest."""
    lines = text_of(name).splitlines()
    start = next(number for number, line in enumerate(lines) if not line.startswith(("#!", "--")))
    naming = start
    while naming < len(lines) and not lines[naming].startswith("---") and "ARGV" in "".join(lines[naming : naming + 2]):
        naming += 1
    return lines[:start], lines[start:naming], lines[naming:]


def code_of(lines):
    return "\n".join(line.partition(" -- ")[0] for line in lines if not line.lstrip().startswith("--"))


@every_script
def test_it_begins_with_the_line_that_forbids_other_slots(name):
    assert re.match(r"#!lua( flags=(allow-oom|no-writes))?\n-- [A-Z]", text_of(name))


@every_script
def test_its_header_says_what_it_takes_and_what_it_returns(name):
    header, _, _ = split(name)
    keys = [line for line in header if line.startswith("-- KEYS")]
    assert len(keys) == 1
    assert re.match(r"-- KEYS\[1\] \w+  (-|HASH|SET|ZSET|LIST|STRING)  \S", keys[0])
    assert sum(line.startswith("-- ARGV ") for line in header) == 1
    assert sum(line.startswith("-- Returns ") for line in header) == 1
    assert len(load(name).keys) == 1


@every_script
def test_its_first_lines_name_all_keys_and_arguments(name):
    header, naming, rest = split(name)
    named = code_of(naming)
    key = load(name).keys[0]
    if not naming:  # it takes no arguments
        assert "-- ARGV    (none)" in header
        naming, rest = rest[:1], rest[1:]
        named = code_of(naming)
    assert re.match(rf"local {key}\b", named)
    assert named.count("KEYS[1]") == 1
    assert not re.search(r"\bKEYS\b", code_of(rest))
    indexes = [int(index) for index in re.findall(r"ARGV\[(\d+)\]", named)]
    assert indexes == list(range(1, len(indexes) + 1)), "in order, none left out"


@every_script
def test_after_that_no_argument_is_used_by_its_number_but_in_loops(name):
    _, _, rest = split(name)
    code = code_of(rest)
    for index in re.findall(r"ARGV\[([^\]]*)\]", code):
        assert re.fullmatch(r"(i|at)( \+ \d+)?", index) or name == "note_overflow", f"ARGV[{index}]"


@every_script
def test_the_header_names_clock_and_call_exactly_when_the_script_takes_them(name):
    _, naming, rest = split(name)
    named, loaded = code_of(naming or rest[:1]), load(name)
    assert loaded.takes_clock == bool(re.search(r"\bclock\b", named))
    assert loaded.takes_call == bool(re.search(r"\bslot\b.*\bcall\b", named, re.DOTALL))
    if loaded.takes_call:
        assert '--- @include "idempotency"' in rest
    time = '--- @include "shard_clock"' if '--- @include "ledger"' in rest else '--- @include "clock"'
    assert (time in rest) == loaded.takes_clock, "a shard's clock does not go back"


@every_script
def test_keys_are_only_made_from_the_root(name):
    """Of the key it is given, or by `key` and the functions of the library that append to the root."""
    own = load(name).keys[0]
    for line in code_of(text_of(name).splitlines()).splitlines():
        for call in re.findall(r'redis\.call\("(\w+)", ([^,)]+)', line):
            command, first = call
            if command not in ("TIME", "PUBLISH"):
                assert re.match(
                    rf"(key[.\[]|{own}\b|root \.\. |\w+_key\b|sorted|hash|known|from|lane|name|unpack\((names|queues))",
                    first,
                ), line


@every_script
def test_it_asks_whether_the_slot_moves_unless_it_works_on_one_key(name):
    """Before it acts: of the lines outside of functions, none that calls something comes first."""
    several = re.search(r'\.\. ":\w', code_of(load(name).source.splitlines()))  # it makes names of other keys
    _, _, rest = split(name)
    code = code_of(rest)
    asks = re.search(r"^(local )?refusal = (check_ledger|refuse_migration)\(", code, re.MULTILINE)
    assert bool(asks) == bool(several)
    if asks and name != "init_shard":  # which first looks at its one key
        calls = re.finditer(r"^(local \w+ = )?(if )?(redis\.p?call|\w+\()", code, re.MULTILINE)
        assert all(call.start() >= asks.start() for call in calls)


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_makes_keys_only_from_the_root_too(name):
    text = (FOLDER / "lib" / f"{name}.lua").read_text()
    for command, first in re.findall(r'redis\.call\((?:"(\w+)"|side), ([^,)]+)', text):
        if command not in ("TIME", "PUBLISH"):
            assert re.match(r"(key[.\[]|root \.\. |\w+_key\b|lane\b|awaited\[|unpack\((queues|awaited))", first), first


def test_every_key_of_the_library_is_in_the_list_of_keys():
    text = (FOLDER / "lib" / "keys.lua").read_text()
    names = set(re.findall(r'(\w+) = root \.\. ":(\w+)"', text))
    assert all(ours == stored for ours, stored in names)
    assert {ours for ours, _ in names} == {name for name in SHARD_KEYS if ":" not in name}
    assert "queue:<priority>:<host>" in SHARD_KEYS


@every_script
def test_includes_are_found_and_pasted_once(name):
    source = load(name).source
    assert not INCLUDE.search(source)
    wanted, todo = set(), set(INCLUDE.findall(text_of(name)))
    while todo:
        wanted |= todo
        todo = {
            inner for one in todo for inner in INCLUDE.findall((FOLDER / "lib" / f"{one}.lua").read_text())
        } - wanted
    for one in LIBRARY:
        first_line = (FOLDER / "lib" / f"{one}.lua").read_text().splitlines()[0]
        assert source.count(first_line) == (one in wanted), one


@pytest.mark.parametrize("name", ["claim", "enqueue", "settle", "started", "vacate"])
def test_the_long_part_of_a_frequent_script_is_a_function_of_its_own(name):
    source = load(name).source
    assert source.count("\nreturn (function()\n-- Hosts:") == 1
    assert source.endswith("\nend)()\n")


@every_script
def test_no_script_is_long(name):
    own = [line for line in split(name)[2] if line.strip() and not line.startswith("--")]
    assert len(own) <= 140
    assert max(map(len, text_of(name).splitlines())) <= 150


@every_script
def test_the_server_accepts_it(name, client):
    assert client.script_load(load(name).source) == load(name).sha


@every_script
def test_older_servers_accept_it_without_its_first_line(name, servers):
    with servers("redis-6.2").client() as client:
        loaded = load(name)
        assert client.script_load(loaded.legacy_source) == loaded.legacy_sha
        assert not loaded.legacy_source.startswith("#!")


@pytest.mark.parametrize("name", [name for name in NAMES if "flags=no-writes" in text_of(name)])
def test_what_says_that_it_does_not_write_does_not(name):
    writing = re.compile(r'redis\.call\("(HSET|HDEL|ZADD|ZREM|SADD|SREM|DEL|UNLINK|SET|LPUSH|RPUSH|LPOP|PUBLISH)"')
    assert not writing.search(code_of(text_of(name).splitlines()))


def test_the_server_refuses_a_script_that_reaches_into_another_slot(client):
    with pytest.raises(Exception, match=r"(?i)slot|non local"):
        client.eval('#!lua\nreturn redis.call("SET", "elsewhere", 1)', 1, "silkline:{a:0}")


@every_script
def test_every_script_has_a_file_of_tests(name, request):
    folder = request.path.parent
    assert (folder / f"test_{name}.py").exists()


def test_a_script_is_sent_without_what_it_does_not_use():
    """The functions, keys and fields of the ledger that it includes and does not name. Each of them takes time in every call."""
    source = load("vacate").source
    assert "local function standing(" in source
    assert "local function push(" not in source
    assert 'root .. ":hosts"' in source
    assert 'root .. ":robots"' not in source
    assert '"concurrency"' in source
    assert '"bloom_error"' not in source


@every_script
def test_a_script_has_what_it_uses(name):
    """Also functions that are only called in rare cases."""
    sent = re.sub(r"--[^\n]*", "", load(name).source)
    library = set().union(*(FUNCTION.findall((FOLDER / "lib" / f"{one}.lua").read_text()) for one in LIBRARY))
    called = set(re.findall(r"(?<![.:\w])(\w+)\(", sent))
    assert library & called <= {*FUNCTION.findall(sent), *re.findall(r"^ *local ([\w, ]+) =", sent, re.MULTILINE)}
    if "local LEDGER_FIELDS" in sent:
        fields = set(re.findall(r"\b(?:ledger|entered)\.(\w+)", sent))
        assert not {field for field in fields if f'"{field}"' not in sent}
    if "local key = {" in sent:
        keys = set(re.findall(r"\bkey\.(\w+)", sent))
        assert not {key for key in keys if not re.search(rf"^  {key} = ", sent, re.MULTILINE)}
