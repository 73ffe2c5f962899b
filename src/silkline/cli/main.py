"""The command ``silkline``: finds the subcommand, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from cyclopts import App, CycloptsError

from silkline.cli import screen
from silkline.cli.completion import completion_of
from silkline.cli.exits import Exit
from silkline.core.errors import SilklineError, SinkUnavailable, StoreUnavailable

# Where each command is, and how its usage reads. Only the one that is asked for is imported.
COMMANDS = {
    "init": ("init:init", "[FILE] [OPTIONS]"),
    "run": ("run:run", "FILE[:NAME] [-o OUT]... [OPTIONS]"),
    "worker": ("worker:worker", "FILE[:NAME] [-o OUT]... [OPTIONS]"),
    "enqueue": ("enqueue:enqueue", "CRAWL URL... [OPTIONS]"),
    "import": ("importing:import_", None),
    "status": ("status:status", "[CRAWL] [OPTIONS]"),
    "top": ("top:top", "[CRAWL] [OPTIONS]"),
    "explain": ("explain:explain", "URL [OPTIONS]"),
    "url": ("url:app", None),
    "crawl": ("crawl:app", None),
    "host": ("host:app", None),
    "dead": ("dead:app", None),
    "workers": ("workers:app", None),
    "doctor": ("doctor:doctor", "[OPTIONS]"),
    "dashboard": ("dashboard:dashboard", "[OPTIONS]"),
    "fsck": ("fsck:fsck", "[CRAWL] [OPTIONS]"),
    "plan": ("plan:plan", "[--from CRAWL] [OPTIONS]"),
    "autoscale": ("autoscale:autoscale", "CRAWL [OPTIONS]"),
    "bench": ("bench:bench", "[OPTIONS]"),
    "demo": ("demo.command:demo", "[OPTIONS]"),
}
OF_WORKERS = ("ls", "quiet", "resume", "stop")

app = App(
    name="silkline",
    help="""A distributed web-scraping queue and crawler on Redis.

Example:
  silkline init books.py && silkline run books.py -o books.jsonl
""",
    help_format="plaintext",
    version=lambda: f"silkline {version('silkline')}",
    suppress_keyboard_interrupt=False,
)
for _name, (_place, _usage) in COMMANDS.items():
    _how = {"usage": f"Usage: silkline {_name} {_usage}"} if _usage else {}
    app.command(f"silkline.cli.{_place}", name=_name, **_how)
app.command(completion_of(app))


def main() -> None:
    """The entry point of the script ``silkline``."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; the answer is its exit code."""
    try:
        if not arguments or arguments[0] in app.help_flags:
            app.resolved_commands()  # all are listed, each with the first sentence of its help
        answer = app(_as_meant(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        return _misused(error)
    except SilklineError as error:
        screen.complain(str(error))
        return Exit.UNAVAILABLE if isinstance(error, StoreUnavailable | SinkUnavailable) else Exit.USAGE
    except KeyboardInterrupt:
        screen.remark("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return answer if isinstance(answer, int) else Exit.OK


def _as_meant(arguments: Sequence[str]) -> Sequence[str]:
    """All other nouns are in the singular: `worker ls` is `workers ls`, unless there is a file named so."""
    match arguments:
        case ["worker", verb, *rest] if verb in OF_WORKERS and not Path(verb).exists():
            return ["workers", verb, *rest]
    return arguments


def _misused(error: CycloptsError) -> int:
    chain = " ".join(("silkline", *(error.command_chain or ())))
    screen.complain(str(error))
    screen.remark(f"See: {chain} --help")
    return Exit.USAGE
