import re
import socketserver
import subprocess
import sys
import threading
from importlib.metadata import version

import pytest

from silkline.cli.main import COMMANDS, GROUPS, app
from tests.cli.processes import COMMAND, Running, environment


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_alone_it_prints_help_and_all_commands_with_a_sentence_each(workplace, arguments):
    out = subprocess.run(
        [COMMAND, *arguments], cwd=workplace, env=environment(), check=True, capture_output=True
    ).stdout
    assert "Usage: silkline COMMAND" in out.decode()
    assert "  silkline init books.py && silkline run books.py -o books.jsonl\n" in out.decode()
    for name in (*COMMANDS, "completion"):
        assert re.search(rf"^. {name} +[A-Z][a-z]+ \w", out.decode(), re.MULTILINE), name


def test_each_command_is_in_one_group_of_the_help_in_the_order_of_a_crawls_life(here):
    boxes = re.findall(r"^╭─ (\w+) ─+╮\n((?:│.*\n)+)", here().out, re.MULTILINE)
    shown = {title: re.findall(r"^│ ([a-z-]+)", box, re.MULTILINE) for title, box in boxes}
    assert shown.pop("Other") == [*GROUPS["Other"], "completion", "--help", "--version"]
    assert shown == {title: list(GROUPS[title]) for title in ("Start", "Develop", "Inspect", "Operate")}


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("import silkline.cli.main", {"redis", "silkline.frontier.frontier", "silkline.worker.worker"}),
        ("import silkline.cli.commands.status", {"scrapy", "silkline.worker.worker", "starlette"}),
        (
            "import silkline.cli.run.worker, silkline.cli.run.command, silkline.cli.commands.manage.url",
            {"scrapy", "starlette"},
        ),
    ],
)
def test_it_starts_without_what_the_command_does_not_need(program, unwanted):
    program += f"; import sys; print(sorted({unwanted} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"[]\n"


def test_it_reports_its_version(silkline):
    answer = silkline("--version")
    assert (answer.code, answer.out) == (0, f"silkline {version('silkline')}\n")


@pytest.mark.parametrize("name", [name for name, (_, usage) in COMMANDS.items() if usage])
def test_every_command_has_help_with_an_example(here, name):
    assert f"  silkline {name}" in here(name, "--help").out.split("Examples:")[1]


def all_commands(within, *chain):
    for name, one in within.resolved_commands().items():
        if not name.startswith("-"):
            yield from all_commands(one, *chain, name) if one.default_command is None else [(*chain, name)]


@pytest.mark.parametrize("chain", list(all_commands(app)), ids=" ".join)
def test_the_help_of_every_command_reports_its_exit_codes_and_all_its_options(here, chain):
    answer = here(*chain, "--help")
    assert answer.code == 0
    assert f"Usage: silkline {' '.join(chain)}" in answer.out
    assert "Exit code: 0" in answer.out
    assert not re.findall(r"^. (?:\*  )?(-[-\w]+)(?: +[-A-Z]+)* +│$", answer.out, re.MULTILINE), (
        "an option without words"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fly"], 'Unknown command "fly"'),
        (["status", "--nonsense"], "Unknown option: --nonsense"),
        (["status", "one", "two"], "two"),
        (["enqueue"], "CRAWL"),
        (["enqueue", "books", "--delay", "soon"], "--delay"),
        (["enqueue", "books", "--order", "random"], "fifo"),
        (["enqueue", "books", "--priority", "1001", "https://a.example/"], "1000"),
        (["bench", "--urls", "0"], "--urls"),
        (["demo", "--workers", "1"], "--workers"),
    ],
)
def test_misuse_is_reported_in_two_lines_with_exit_code_2(here, arguments, words):
    answer = here(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert words in answer.err
    assert answer.err.splitlines()[-1].startswith("See: silkline")
    assert answer.err.endswith("--help\n")


def test_no_command_but_enqueue_creates_a_directory(silkline, workplace):
    for arguments in (["status"], ["status", "books"], ["--version"], ["fly"]):
        silkline(*arguments)
    assert list(workplace.iterdir()) == []


@pytest.mark.parametrize("command", ["status", "enqueue"])
@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("redis://127.0.0.1:1", 3, "cannot be reached"),
        ("redis://user:geheim@127.0.0.1:1", 3, "cannot be reached"),
        ("unix:///nowhere.sock", 3, "cannot be reached"),
        ("localhost", 2, "looks like redis://localhost:6379/0"),
        ("http://localhost", 2, "unknown server address"),
        ("redis+sentinel://localhost", 2, "sentinel address"),
    ],
)
def test_a_wrong_address_is_reported_without_a_password(silkline, command, address, code, words):
    arguments = ["status"] if command == "status" else ["enqueue", "books", "https://a.example/"]
    answer = silkline(*arguments, "--redis", address)
    assert answer.code == code
    assert answer.out == ""
    assert words in answer.err
    assert "geheim" not in answer.err


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("redis://127.0.0.1:PORT/99", 2, "has no database with the number at the end of the address"),
        ("redis://nobody:geheim@127.0.0.1:PORT", 2, "the user name or password in the address is wrong"),
        ("redis+cluster://127.0.0.1:PORT", 2, "is not a cluster: write redis:// instead of redis+cluster://"),
    ],
)
def test_an_address_that_does_not_fit_its_server_is_reported(here, own_server, address, code, words):
    answer = here("status", "--redis", address.replace("PORT", str(own_server(tcp=True).port)))
    assert answer.code == code
    assert words in " ".join(answer.err.split())
    assert "geheim" not in answer.err


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("redis", "does not reply as a Redis server does"),
        ("rediss", "Does the server use TLS? If not, write redis:// instead of rediss://"),
    ],
)
def test_a_web_server_is_not_a_redis_server(here, scheme, words):
    class Html(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(1000)
            self.request.sendall(b"<!DOCTYPE html>\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Html) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answer = here("status", "--redis", f"{scheme}://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert answer.code == 3
    assert words in " ".join(answer.err.split())


def test_an_unreachable_server_is_reported_with_the_source_of_its_address(silkline):
    given = silkline("status", "--redis", "redis://127.0.0.1:1")
    assert "The address is that of --redis. Check that the server is running" in given.err
    from_variable = silkline("status", SILKLINE_REDIS="redis://127.0.0.1:1")
    assert "The address is that of SILKLINE_REDIS." in from_variable.err


def test_the_address_may_come_from_the_environment(silkline, valkey, crawl):
    assert silkline("enqueue", crawl, "https://a.example/", SILKLINE_REDIS=valkey.url).code == 0
    assert silkline("status", crawl, "--json", SILKLINE_REDIS=valkey.url).json["ready"] == 1
    elsewhere = silkline("status", crawl, "--redis", "redis://127.0.0.1:1", SILKLINE_REDIS=valkey.url)
    assert elsewhere.code == 3


def test_an_empty_variable_is_as_good_as_none(silkline, workplace):
    assert silkline("enqueue", "books", "https://a.example/", SILKLINE_REDIS="").code == 0
    assert (workplace / ".silkline").is_dir()


def test_whoever_stops_reading_gets_no_traceback(valkey, crawl, workplace):
    command = f"{COMMAND} status --redis {valkey.url} | true"
    done = subprocess.run(command, shell=True, capture_output=True, cwd=workplace, env=environment(), check=False)
    assert b"Traceback" not in done.stderr
    assert b"pipe" not in done.stderr.lower()


def test_interrupted_while_it_starts_it_says_so_and_no_more(workplace):
    """Ctrl-C in the half second in which everything is imported."""
    (workplace / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'cyclopts': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
    )
    process = Running("--version", cwd=workplace, PYTHONPATH=str(workplace))  # it imports them itself
    assert (process.end(), process.out, process.err) == (130, "", "interrupted\n")
    process.close()


@pytest.mark.parametrize("remove", ["remove", "delete", "rm"])
def test_the_usual_words_for_verbs_are_accepted(operate, frontier, crawl, remove):
    frontier().close()
    assert crawl in operate("crawl", "list").out
    assert operate("crawl", "info", crawl).out == operate("crawl", "show", crawl).out
    assert operate("workers", "list", crawl).code == 0
    assert operate("crawl", remove, crawl, "--yes").code == 0
    assert operate("dead", "remove", crawl).code == 2
