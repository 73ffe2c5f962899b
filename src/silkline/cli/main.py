"""The command ``silkline``: finds the subcommand, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError

from silkline.cli import screen
from silkline.cli.autoscale import autoscale
from silkline.cli.bench import bench
from silkline.cli.completion import completion_of
from silkline.cli.crawl import app as crawl
from silkline.cli.dashboard import dashboard
from silkline.cli.dead import app as dead
from silkline.cli.demo.command import demo
from silkline.cli.doctor import doctor
from silkline.cli.enqueue import enqueue
from silkline.cli.exits import Exit
from silkline.cli.explain import explain
from silkline.cli.fsck import fsck
from silkline.cli.host import app as host
from silkline.cli.importing import import_
from silkline.cli.init import init
from silkline.cli.plan import plan
from silkline.cli.run import run as run_command
from silkline.cli.status import status
from silkline.cli.top import top
from silkline.cli.url import app as url
from silkline.cli.worker import worker
from silkline.cli.workers import app as workers
from silkline.core.errors import SilklineError, SinkUnavailable, StoreUnavailable

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
app.command(init, usage="Usage: silkline init [FILE] [OPTIONS]")
app.command(run_command, name="run", usage="Usage: silkline run FILE[:NAME] [-o OUT]... [OPTIONS]")
app.command(worker, usage="Usage: silkline worker FILE[:NAME] [-o OUT]... [OPTIONS]")
app.command(enqueue, usage="Usage: silkline enqueue CRAWL URL... [OPTIONS]")
app.command(import_)
app.command(status, usage="Usage: silkline status [CRAWL] [OPTIONS]")
app.command(top, usage="Usage: silkline top [CRAWL] [OPTIONS]")
app.command(explain, usage="Usage: silkline explain URL [OPTIONS]")
app.command(url)
app.command(crawl)
app.command(host)
app.command(dead)
app.command(workers)
app.command(doctor, usage="Usage: silkline doctor [OPTIONS]")
app.command(dashboard, usage="Usage: silkline dashboard [OPTIONS]")
app.command(fsck, usage="Usage: silkline fsck [CRAWL] [OPTIONS]")
app.command(plan, usage="Usage: silkline plan [--from CRAWL] [OPTIONS]")
app.command(autoscale, usage="Usage: silkline autoscale CRAWL [OPTIONS]")
app.command(bench, usage="Usage: silkline bench [OPTIONS]")
app.command(demo, usage="Usage: silkline demo [OPTIONS]")
app.command(completion_of(app))


def main() -> None:
    """The entry point of the script ``silkline``."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; the answer is its exit code."""
    try:
        answer = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
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


def _misused(error: CycloptsError) -> int:
    chain = " ".join(("silkline", *(error.command_chain or ())))
    screen.complain(str(error))
    screen.remark(f"See: {chain} --help")
    return Exit.USAGE
