"""The command ``silkline``: runs a subcommand and turns errors into a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Group, MissingArgumentError

from silkline.cli import screen
from silkline.cli.completion import completion_of
from silkline.cli.exits import Exit
from silkline.errors import SilklineError, SinkUnavailable, StoreDeleted, StoreUnavailable

# Each command with its module and function and its usage, by the group that the help shows it in. Only the command that
# runs is imported.
GROUPS: dict[str, dict[str, tuple[str | None, str | None]]] = {
    "Start": {
        "init": ("commands.init:init", "[FILE] [OPTIONS]"),
        "run": ("run.command:run", "FILE[:NAME] [-o OUT]... [OPTIONS]"),
        "start": ("run.starting:start", "FILE[:NAME] [-o OUT]... [OPTIONS]"),
        "worker": ("run.worker:worker", "FILE[:NAME] [-o OUT]... [OPTIONS]"),
        "enqueue": ("commands.enqueue:enqueue", "CRAWL URL... [OPTIONS]"),
        "import": (None, None),
    },
    "Develop": {
        "fetch": ("develop.fetch:fetch", "URL [OPTIONS]"),
        "try": ("develop.try_:try_", "FILE[:NAME] [URL] [OPTIONS]"),
        "shell": ("develop.shell:shell", "URL [OPTIONS]"),
    },
    "Inspect": {
        "status": ("commands.status:status", "[CRAWL] [OPTIONS]"),
        "top": ("top.command:top", "[CRAWL] [OPTIONS]"),
        "explain": ("commands.manage.url:explain", "URL [OPTIONS]"),
        "dashboard": ("commands.dashboard:dashboard", "[OPTIONS]"),
    },
    "Operate": {
        "url": ("commands.manage.url:app", None),
        "crawl": ("commands.manage.crawl:app", None),
        "host": ("commands.manage.host:app", None),
        "dead": ("commands.manage.dead:app", None),
        "task": ("commands.manage.task:app", None),
        "workers": ("commands.manage.workers:app", None),
        "proxy": ("commands.manage.proxy:app", None),
        "doctor": ("commands.doctor:doctor", "[OPTIONS]"),
        "fsck": ("commands.fsck:fsck", "[CRAWL] [OPTIONS]"),
        "autoscale": ("commands.autoscale:autoscale", "[CRAWL] [OPTIONS]"),
    },
    "Other": {
        "plan": ("commands.plan:plan", "[--from CRAWL] [OPTIONS]"),
        "bench": ("commands.bench:bench", "[OPTIONS]"),
        "demo": ("demo.command:demo", "[OPTIONS]"),
    },
}
COMMANDS = {name: how for commands in GROUPS.values() for name, how in commands.items()}
OF_ONE_CRAWL = ("crawl", "host", "dead", "task", "workers", "autoscale")
OF_ONE_CRAWL_TOO = (("url", "ls"), ("url", "export"), ("proxy", "ls"))
OF_A_FILE = ("task", "enqueue")
OF_WORKERS = ("ls", "quiet", "resume", "stop")
ALIASES = {"list": "ls", "remove": "rm", "delete": "rm", "info": "show"}
"""Other words for the verbs of `silkline NOUN VERB`, for nouns that have that verb."""

app = App(
    name="silkline",
    help="""A distributed web-scraping queue and crawler on Redis.

To start:
  silkline init books.py && silkline run books.py -o books.jsonl
""",
    help_format="plaintext",
    version=lambda: f"silkline {version('silkline')}",
    suppress_keyboard_interrupt=False,
)
importing = App(name="import", help="Import the queue of another crawler.", help_format="plaintext")
importing.command(  # by name too: the module imports Scrapy, which is slow and optional
    "silkline.cli.commands.import_:scrapy_redis",
    name="scrapy-redis",
    usage="Usage: silkline import scrapy-redis --spider NAME [OPTIONS]",
)
for _title, _commands in GROUPS.items():
    _group = Group.create_ordered(_title)
    for _name, (_place, _usage) in _commands.items():
        if _place is None:
            importing.group, importing.sort_key = _group, list(COMMANDS).index(_name)
            app.command(importing)
            continue
        _how = {"usage": f"Usage: silkline {_name} {_usage}"} if _usage else {}
        app.command(f"silkline.cli.{_place}", name=_name, group=_group, sort_key=list(COMMANDS).index(_name), **_how)
_completion = completion_of(app)
_completion.group, _completion.sort_key = _group, len(COMMANDS)
app.command(_completion)
for _flag in (*app.help_flags, *app.version_flags):
    app[_flag].group = _group


def main() -> None:
    """The entry point of the script ``silkline``."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        if not arguments or arguments[0] in app.help_flags:
            app.resolved_commands()  # the list of commands shows the first sentence of each help text
        elif arguments[0] == "import":
            importing.resolved_commands()
        answer = _call(_as_meant(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        return _misused(error)
    except SilklineError as error:
        screen.complain(str(error))
        if isinstance(error, StoreUnavailable) and "cannot be reached" in str(error):
            screen.remark(_address_came_from(arguments))
        return Exit.UNAVAILABLE if isinstance(error, StoreUnavailable | SinkUnavailable | StoreDeleted) else Exit.USAGE
    except KeyboardInterrupt:
        screen.remark("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of stdout, such as `head`, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return answer if isinstance(answer, int) else Exit.OK


def _call(arguments: Sequence[str]) -> Any:
    try:
        return app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except MissingArgumentError as error:
        named = tuple(arguments[:2])
        if named == OF_A_FILE or (arguments[0] not in OF_ONE_CRAWL and named not in OF_ONE_CRAWL_TOO):
            raise
        completed = import_module("silkline.cli.options.only_crawl").with_only_crawl(arguments, error)
        if completed is None:
            raise
    return app(completed, exit_on_error=False, print_error=False, result_action="return_value")


def _as_meant(arguments: Sequence[str]) -> Sequence[str]:
    """Accept other words for verbs; and `worker ls` for `workers ls`, unless a file `ls` exists: all other nouns are singular."""
    match arguments:
        case ["worker", verb, *rest] if verb in OF_WORKERS and not Path(verb).exists():
            return _as_meant(["workers", verb, *rest])
        case [noun, verb, *rest] if verb in ALIASES and COMMANDS.get(noun, ("", ""))[1] is None:
            known = app[noun].resolved_commands()
            return arguments if verb in known or ALIASES[verb] not in known else [noun, ALIASES[verb], *rest]
    return arguments


def _address_came_from(arguments: Sequence[str]) -> str:
    given = any(word.partition("=")[0] == "--redis" for word in arguments)
    source = "--redis" if given else "SILKLINE_REDIS" if os.environ.get("SILKLINE_REDIS") else "the embedded server"
    return f"The address is that of {source}. Check that the server is running and that this machine can reach it."


def _misused(error: CycloptsError) -> int:
    chain = " ".join(("silkline", *(error.command_chain or ())))
    screen.complain(str(error))
    screen.remark(f"See: {chain} --help")
    return Exit.USAGE
