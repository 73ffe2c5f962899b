import gzip
import re
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from silkline import Complete, Politeness, Request
from tests.cli.processes import COMMAND, environment
from tests.servers import Server

FAST = Politeness(delay=0, concurrency=1000)


def urls(count, host="a.example"):
    return [f"https://{host}/{i}" for i in range(count)]


def test_urls_as_arguments_go_in_once(enqueue, frontier):
    first = enqueue("https://a.example/", "https://b.example/", "https://a.example/#part")
    assert first.code == 0
    assert "2 added, 1 seen before, 0 refused" in first.out
    assert "(created)" in first.out
    second = enqueue("https://a.example/", "https://c.example/")
    assert second.code == 0
    assert "1 added, 1 seen before, 0 refused" in second.out
    assert "(created)" not in second.out
    assert frontier().admin.stats().ready == 3


def test_calls_of_a_crawl_may_wait_for_the_disk(silkline, workplace):
    assert silkline("enqueue", "books", "https://a.example/", "--durability", "always").code == 0
    assert silkline("status", "books", "--json").json["settings"]["durability"] == "always"
    other = silkline("enqueue", "books", "https://b.example/", "--durability", "everysec")
    assert other.code == 2
    assert "--durability is always, not everysec" in " ".join(other.err.split())
    refused = silkline("enqueue", "films", "https://a.example/", "--durability", "replicated")
    assert refused.code == 2
    assert "it has no replica" in " ".join(refused.err.split())


def test_without_an_address_the_embedded_server_keeps_them(silkline, workplace):
    assert silkline("enqueue", "books", "https://a.example/").code == 0
    again = silkline("enqueue", "books", "https://a.example/", "https://b.example/", "--json")
    assert (again.json["added"], again.json["seen"]) == (1, 1)
    assert (workplace / ".silkline").is_dir()


def test_the_summary_as_json(enqueue, crawl):
    answer = enqueue("https://a.example/", "nope", "--json")
    assert answer.code == 1
    assert answer.err == ""
    seconds = answer.json["seconds"]
    assert 0 < seconds < 60
    assert answer.json == {
        "crawl": crawl,
        "created": True,
        "added": 1,
        "seen": 0,
        "refused": 1,
        "full": 0,
        "seconds": seconds,
        "interrupted": False,
        "refusals": [
            {
                "where": "argument 2",
                "url": "nope",
                "reason": "not an absolute URL (it needs http:// or https:// and a host)",
            }
        ],
    }


FILE = """\ufeffhttps://a.example/1

# a comment
   https://a.example/2  \r
  # another
ftp://a.example/3
https://a.example/1
https://
https://a.example/\u00fcber
"""


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("source", ["file", "file dash", "dash"])
def test_files_and_stdin_have_one_url_a_line(enqueue, frontier, workplace, source, packed):
    data = gzip.compress(FILE.encode()) if packed else FILE.encode()
    if source == "file":
        (workplace / "urls").write_bytes(data)
        answer = enqueue("--file", "urls")
    else:
        answer = enqueue(*(["--file", "-"] if source == "file dash" else ["-"]), given=data)
    assert answer.code == 1
    assert "3 added, 1 seen before, 2 refused" in answer.out
    assert answer.err.splitlines() == [
        "  refused line 6, ftp://a.example/3: only http and https are crawled, not ftp:",
        "  refused line 8, https://: not a valid URL",
    ]
    assert {lease.url for lease in frontier().claim(10)} == {"https://a.example/1"}


def test_several_files_and_arguments_together(enqueue, workplace):
    (workplace / "one").write_text("https://a.example/1\nbad one\n")
    (workplace / "two.gz").write_bytes(gzip.compress(b"https://a.example/2\n\nbad two\n"))
    answer = enqueue("bad three", "https://a.example/0", "--file", "one", "--file", "two.gz")
    assert "3 added, 0 seen before, 3 refused" in answer.out
    places = re.findall(r"refused (.*?), bad", answer.err)
    assert places == ["argument 1", "one line 2", "two.gz line 3"]


def test_a_large_file_is_streamed(enqueue, frontier, workplace):
    with (workplace / "urls").open("w") as file:
        file.writelines(f"https://h{i % 50}.example/{i}\n" for i in range(12_345))
    answer = enqueue("--file", "urls")
    assert "12,345 added" in answer.out
    assert frontier().admin.stats().ready == 12_345


def test_lines_go_in_while_the_sender_is_still_writing(valkey, crawl, workplace, frontier):
    command = [COMMAND, "enqueue", crawl, "-", "--redis", valkey.url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=workplace, env=environment())
    process.stdin.write("".join(f"{url}\n" for url in urls(1_500)).encode())
    process.stdin.flush()
    crawl_ = frontier()
    deadline = time.monotonic() + 100
    while crawl_.admin.stats().ready < 1_000:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.communicate()
    assert process.returncode == 0
    assert crawl_.admin.stats().ready == 1_500


def test_only_the_first_refused_are_shown_and_all_are_written(enqueue, workplace):
    bad = [f"bad-{i}" for i in range(27)]
    answer = enqueue("-", "--refused", "refused.txt", given="\n".join([*bad, "https://a.example/"]))
    assert answer.code == 1
    assert answer.err.count("refused line") == 20
    assert "and 7 more; --refused FILE writes them all" in answer.err
    written = (workplace / "refused.txt").read_text().splitlines()
    assert written[0].startswith("# line 1: not an absolute URL")
    assert written[1::2] == bad


def test_the_refused_can_be_corrected_and_offered_again(enqueue, workplace):
    enqueue("a.example/x", "--refused", "refused.txt")
    file = workplace / "refused.txt"
    file.write_text(file.read_text().replace("\na.example", "\nhttps://a.example"))
    assert "1 added, 0 seen before, 0 refused" in enqueue("--file", "refused.txt").out


ENTRIES = {
    "a.csv": b"\xef\xbb\xbfurl,priority,meta.sku\r\nhttps://a.example/1,5,x\r\nhttps://a.example/2,high,\r\nhttps://a.example/3,,\r\n",
    "b.jsonl.zst": zstandard.compress(
        b'{"url": "https://b.example/1", "meta": {"n": 1}}\n{"url": 2}\n\n{"priority": 1}\n'
    ),
    "c.ndjson.gz": gzip.compress(b'{"url": "https://c.example/1", "method": "POST", "body": "x", "retries": [1, 2]}\n'),
    "d.txt": b'https://d.example/1\n{"url": "https://d.example/2", "priority": 7}\nurl,priority\n',
    "e": b"priority,url\n1,https://e.example/1\n",
}


def test_files_have_every_format_and_what_is_bad_is_reported_with_its_place(operate, workplace, frontier, crawl):
    for name, data in ENTRIES.items():
        (workplace / name).write_bytes(data)
    pq.write_table(pa.table({"url": ["https://f.example/1", "f"], "priority": [3, 4]}), workplace / "f.parquet")
    files = [part for name in [*ENTRIES, "f.parquet"] for part in ("--file", name)]
    answer = operate(
        "enqueue", crawl, *files, '{"url": "https://a.example/0", "timeout": 9}', "--priority", "-2", "--refused", "r",
        "--delay", "0", "--concurrency", "99",
    )  # fmt: skip
    assert answer.code == 1
    assert "9 added, 0 seen before, 5 refused" in answer.out
    places = re.findall(r"refused (.*?), ", answer.err)
    assert places == ["a.csv line 3", "b.jsonl.zst line 2", "b.jsonl.zst line 4", "d.txt line 3", "f.parquet row 2"]
    assert 'its "priority" is wrong' in answer.err
    requests = {lease.url: lease.request for lease in frontier().claim(100)}
    assert requests["https://a.example/1"] == Request("https://a.example/1", priority=5, meta={"sku": "x"})
    assert requests["https://a.example/0"] == Request("https://a.example/0", priority=-2, timeout=9.0)
    assert requests["https://c.example/1"] == Request(
        "https://c.example/1", "POST", body=b"x", priority=-2, retries=(1.0, 2.0)
    )
    assert (workplace / "r").read_text().splitlines()[1] == '["url","https://a.example/2","priority","high"]'
    again = operate("enqueue", crawl, "--file", "r")  # as it is: refused again, for the same reasons
    assert (again.code, again.err.count("refused line")) == (1, 5)
    assert 'its "priority" is wrong' in again.err


@pytest.mark.parametrize(
    ("name", "data", "options", "words"),
    [
        ("x.csv", b"name\nx\n", [], 'x.csv has no column "url"; its columns are: name'),
        ("x.csv", b"url,url\n", [], 'x.csv has the column "url" twice'),
        ("x", b"https://a.example/\n", ["--format", "csv"], 'x has no column "url"'),
        ("x.parquet", b"PAR1", [], "x.parquet is not a readable Parquet file"),
        ("x.parquet.gz", b"PAR1", [], "Parquet files are already compressed"),
        ("x", b"x", ["--file", "-", "--format", "parquet"], "a Parquet file cannot be read from stdin"),
        ("x", b"x", ["--format", "xlsx"], "xlsx"),
        ("x.zst", zstandard.compress(b"https://a.example/" * 99)[:-9], [], "x.zst is a damaged zstd file"),
    ],
)
def test_a_file_of_another_form_is_reported(operate, workplace, crawl, name, data, options, words):
    (workplace / name).write_bytes(data)
    answer = operate("enqueue", crawl, "--file", name, *options)
    assert answer.code == 2
    assert words in answer.err


def test_stdin_is_csv_if_its_first_line_can_be_nothing_else(enqueue, frontier):
    rows = "url;priority\nhttps://a.example/1;5\nhttps://a.example/2;-5\n"
    assert "2 added" in enqueue("-", given=zstandard.compress(rows.encode())).out
    assert [lease.request.priority for lease in frontier().claim(1)] == [5]


def test_hostile_lines_are_refused_and_cannot_steer_the_terminal(enqueue, workplace):
    lines = [
        b"https://a.example/\x1b[31mred",
        b"\xff\xfe",
        b"x" * 300_000,
        b"[bold]tag[/bold]",
        b"https://a.example/ok",
    ]
    answer = enqueue("-", "--refused", "refused", given=b"\n".join(lines))
    assert "1 added, 0 seen before, 4 refused" in answer.out
    assert "\x1b" not in answer.err
    assert "\\x1b[31mred" in answer.err
    assert "[bold]tag[/bold]" in answer.err
    assert "refused line 3, xxx" in answer.err
    assert max(map(len, answer.err.splitlines())) < 400
    assert b"\xff\xfe\n" in (workplace / "refused").read_bytes()


def test_priority_goes_first(enqueue, frontier):
    enqueue("https://a.example/low", "https://a.example/mid")
    enqueue("https://a.example/high", "--priority", "5")
    enqueue("https://a.example/last", "--priority", "-5")
    crawl = frontier()
    [lease] = crawl.claim(1)
    assert (lease.url, lease.request.priority) == ("https://a.example/high", 5)


def test_every_setting_creates_the_crawl(enqueue, frontier):
    options = (
        "--delay 0.25 --concurrency 3 --burst 2 --seen bloom:0.001,5000 --order lifo --capacity 777 --shards 3 "
        "--max-pages 50 --max-pages-per-host 9 --max-depth 4"
    )
    assert enqueue("https://a.example/", *options.split()).code == 0
    settings = frontier().layout.settings
    assert settings.politeness == Politeness(delay=0.25, concurrency=3, burst=2)
    assert (settings.seen.kind, settings.seen.error, settings.seen.capacity) == ("bloom", 0.001, 5000)
    assert (settings.order, settings.capacity, settings.shards) == ("lifo", 777, 3)
    assert (settings.budget.pages, settings.budget.pages_per_host, settings.budget.depth) == (50, 9, 4)
    assert enqueue("https://a.example/2", *options.split()).code == 0


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--delay", "2", "--delay is 0.5, not 2.0"),
        ("--concurrency", "2", "--concurrency is 4, not 2"),
        ("--seen", "compact", "--seen is exact, not compact"),
        ("--capacity", "9", "--capacity is 5000000, not 9"),
        ("--max-pages", "9", "--max-pages is unlimited, not 9"),
    ],
)
def test_a_setting_that_contradicts_the_crawl_is_refused(enqueue, frontier, option, value, words):
    frontier(politeness=Politeness(delay=0.5, concurrency=4))
    answer = enqueue("https://a.example/", option, value)
    assert answer.code == 2
    assert words in answer.err
    assert frontier().admin.stats().accepted == 0


def test_of_an_existing_crawl_only_the_settings_given_are_compared(enqueue, frontier):
    frontier(politeness=Politeness(delay=0.5, concurrency=4))
    assert enqueue("https://a.example/", "--delay", "0.5").code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--delay", "-1"], "delay must be"),
        (["--concurrency", "0"], "concurrency must be"),
        (["--burst", "0"], "burst must be"),
        (["--seen", "magic"], "seen must be 'exact'"),
        (["--capacity", "0"], "capacity must be at least 1"),
        (["--shards", "5000"], "shards must be from 1 to 4096"),
        (["--max-pages", "0"], "pages must be an integer of at least 1"),
        (["--max-depth", "-1"], "depth must be an integer of at least 0"),
    ],
)
def test_a_setting_without_sense_is_refused_before_a_crawl_exists(enqueue, operate, crawl, options, words):
    answer = enqueue("https://a.example/", *options)
    assert answer.code == 2
    assert words in answer.err
    assert operate("status", crawl).code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to enqueue"),
        (["--file", "missing"], "missing cannot be read: No such file"),
        (["--file", "."], "cannot be read: Is a directory"),
        (["https://a.example/", "--refused", "no/such/dir"], "no/such/dir cannot be written"),
        (["--color", "blue"], "unknown option --color"),
    ],
)
def test_wrong_use_is_reported(enqueue, arguments, words):
    answer = enqueue(*arguments)
    assert answer.code == 2
    assert words in answer.err


def test_a_name_that_cannot_be_one_is_refused(operate):
    answer = operate("enqueue", "no spaces", "https://a.example/")
    assert answer.code == 2
    assert "a crawl's name must be" in answer.err


def test_a_damaged_gzip_file_is_reported_after_the_account_of_what_went_in(enqueue, workplace):
    packed = gzip.compress("".join(f"https://a.example/{i * 7919}\n" for i in range(50_000)).encode())
    (workplace / "urls.gz").write_bytes(packed[: len(packed) // 2])
    answer = enqueue("--file", "urls.gz")
    assert answer.code == 2
    assert re.search(r"[\d,]+000 added", answer.out)
    assert "urls.gz is a damaged gzip file" in answer.err


def test_a_cancelled_crawl_refuses(enqueue, frontier):
    frontier().admin.cancel()
    answer = enqueue("https://a.example/")
    assert answer.code == 1
    assert "refused argument 1, https://a.example/: the crawl is cancelled" in answer.err


def test_when_full_it_can_stop_at_once(enqueue, frontier):
    answer = enqueue("-", "--capacity", "100", "--no-wait", given="\n".join(urls(5_000)))
    assert answer.code == 4
    assert "100 added, 0 seen before, 0 refused, 900 did not fit" in answer.out
    assert "Run the same command again later" in answer.err
    assert frontier().admin.stats().full
    parsed = enqueue("-", "--no-wait", "--json", given="\n".join(urls(5_000)))
    assert parsed.code == 4
    assert (parsed.json["seen"], parsed.json["full"]) == (100, 900)


def test_when_full_it_waits_for_the_workers_and_loses_nothing(valkey, crawl, workplace, frontier):
    command = [COMMAND, "enqueue", crawl, "-", "--redis", valkey.url, "--json"]
    command += ["--capacity", "500", "--delay", "0", "--concurrency", "1000"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workplace, env=environment()
    )
    process.stdin.write("\n".join(urls(2_300)).encode())
    process.stdin.close()
    assert b"is full (500 requests): waiting until its workers make room" in process.stderr.readline()
    crawl_, done = frontier(), set()
    while len(done) < 2_300:
        leases = crawl_.claim(300, wait=10)
        assert leases
        crawl_.settle([(lease, Complete()) for lease in leases])
        done |= {lease.url for lease in leases}
    assert process.wait(100) == 0
    assert b'"added": 2300, "seen": 0' in process.stdout.read()
    assert done == set(urls(2_300))
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("json", [False, True])
def test_ctrl_c_ends_the_wait_with_130_and_an_account(valkey, crawl, workplace, json):
    command = [COMMAND, "enqueue", crawl, *urls(20), "--redis", valkey.url, "--capacity", "5"]
    command += ["--json"] if json else []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workplace, env=environment(), text=True
    )
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "Traceback" not in err
    if json:
        assert '"added": 5' in out
        assert '"interrupted": true' in out
    else:
        assert "5 added" in out
        assert "Nothing is lost: run the same command again" in err


def test_a_server_that_goes_away_meanwhile_is_reported_with_the_account(crawl, workplace):
    server = Server("valkey").start()
    command = [COMMAND, "enqueue", crawl, "-", "--redis", server.url]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workplace, env=environment()
    )
    try:
        process.stdin.write(("\n".join(urls(2_000)) + "\n").encode())
        process.stdin.flush()
        with server.client() as client:
            deadline = time.monotonic() + 100
            while client.hget(f"silkline:{{{crawl}:0}}:ledger", "accepted") != b"2000":
                assert time.monotonic() < deadline
                time.sleep(0.02)
        server.kill()
        process.stdin.write("\n".join(urls(1_000, "b.example")).encode())
        out, err = process.communicate(timeout=100)
    finally:
        server.remove()
    assert process.returncode == 3
    assert b"1,000 added" in out or b"2,000 added" in out  # the last answer may have been on its way
    assert b"cannot be reached" in err
    assert b"Traceback" not in err


def test_it_works_on_every_server(any_server, silkline, crawl):
    answer = silkline("enqueue", crawl, *urls(10), "--redis", any_server.url, "--json")
    assert (answer.code, answer.json["added"]) == (0, 10)
    status = silkline("status", crawl, "--redis", any_server.url, "--json").json
    assert (status["ready"], status["settings"]["shards"]) == (10, 64 if any_server.cluster else 1)


def test_the_file_name_of_a_path_with_spaces_is_kept(enqueue, workplace):
    Path(workplace / "my urls").write_text("https://a.example/\n")
    assert enqueue("--file", "my urls").code == 0


@pytest.mark.parametrize("given", [["notaurl"], ["ftp://a.example/", "https://"], ["-"]])
def test_without_a_valid_url_no_crawl_is_created(silkline, workplace, given):
    answer = silkline("enqueue", "foo", *given, given="# nothing\nnot-a-url\n")
    assert answer.code == 1
    assert "foo: 0 added, 0 seen before" in answer.out
    assert "The crawl foo does not exist, and was not created: there was no valid URL." in answer.err
    assert silkline("status", "--json").json["crawls"] == []
    assert silkline("enqueue", "foo", *given, "--json", given="x y\n").json["created"] is False


def test_a_valid_url_after_many_that_are_not_creates_the_crawl(silkline, workplace):
    bad = "\n".join(f"bad{number}" for number in range(2_500))
    answer = silkline("enqueue", "foo", "-", "--refused", "refused", given=f"{bad}\nhttps://a.example/\nworse\n")
    assert answer.code == 1
    assert "foo (created): 1 added, 0 seen before, 2,501 refused" in answer.out
    assert (workplace / "refused").read_text().count("\nbad") == 2_500
    assert silkline("enqueue", "foo", "notaurl").code == 1
    assert [one["crawl"] for one in silkline("status", "--json").json["crawls"]] == ["foo"]


def test_a_wrong_setting_is_reported_before_a_url_is_read(silkline, workplace):
    answer = silkline("enqueue", "foo", "notaurl", "--delay=-1")
    assert (answer.code, answer.out) == (2, "")
