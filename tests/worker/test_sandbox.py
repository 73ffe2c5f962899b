"""The sandbox itself: where it cannot run, no page is blamed for it."""

from __future__ import annotations

import errno
import subprocess
import sys
import textwrap

import pytest

from silkline import FetchOptions
from silkline.core.request import Request
from silkline.core.scope import Scope
from silkline.errors import ConfigError, LocalFailure
from silkline.fetch.fetcher import Headers, Response
from silkline.testing.handlers import AnyHandlers
from silkline.worker import parsing, sandbox_child, throttling
from silkline.worker.crawl.page import Links, Page
from silkline.worker.parsing import Sandbox, check_now

LARGE = b"<html>" + b"<p class='a'>text</p>" * 5_000


def test_it_finds_the_parser_where_the_worker_has_found_it(tmp_path):
    """Packages may be in folders that only this process knows of, by PYTHONPATH or by its own doing."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import sys
            from silkline.worker.parsing import check_now
            sys.path.insert(0, sys.argv[1])
            check_now(b"<p class='a'>text</p>" * 5000, "html")
            print("parsed")
        """)
    )
    parser = tmp_path / "packages" / "selectolax"
    parser.mkdir(parents=True)
    (parser / "__init__.py").touch()
    (parser / "lexbor.py").write_text(
        f"import pathlib\ndef LexborHTMLParser(page, options):\n    pathlib.Path({str(tmp_path / 'used')!r}).touch()\n"
    )
    done = subprocess.run([sys.executable, program, parser.parent], capture_output=True, text=True, check=True)
    assert done.stdout == "parsed\n"
    assert (tmp_path / "used").exists()


def test_a_page_that_crashes_the_parser_costs_only_the_process_that_tries_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import sys
            from silkline.errors import HostileHtml
            from silkline.worker.parsing import check_now
            sys.path.insert(0, sys.argv[1])
            try:
                check_now(b"<p class='a'>text</p>" * 5000, "html")
            except HostileHtml as error:
                print(error)
        """)
    )
    parser = tmp_path / "packages" / "selectolax"
    parser.mkdir(parents=True)
    (parser / "__init__.py").touch()
    (parser / "lexbor.py").write_text("import os\ndef LexborHTMLParser(page, options):\n    os.abort()\n")
    done = subprocess.run([sys.executable, program, parser.parent], capture_output=True, text=True, check=True)
    assert done.stdout == "parsing its 105,000 bytes crashes the parser\n"


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """A sandbox that ends before it has looked at a page."""
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit(1)")
    monkeypatch.setattr(sandbox_child, "__file__", str(program))


async def test_a_sandbox_that_cannot_start_is_a_failure_of_this_machine(broken):
    processes = Sandbox()
    with pytest.raises(LocalFailure, match="cannot be checked in the sandbox"):
        await processes.check(LARGE, "html", "a.test")
    with pytest.raises(LocalFailure, match="cannot be checked in the sandbox"):
        check_now(LARGE, "html")
    processes.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EAGAIN, errno.ENOMEM])
async def test_a_machine_that_can_start_no_process_blames_no_page(number, monkeypatch):
    def refuse(*_, **__):
        raise OSError(number, "no")

    monkeypatch.setattr(parsing.subprocess, "Popen", refuse)
    with pytest.raises(LocalFailure):
        await Sandbox().check(LARGE, "html", "a.test")
    with pytest.raises(LocalFailure):
        check_now(LARGE, "html")


async def test_pages_wait_until_the_sandbox_can_be_started(run, new_crawl, monkeypatch):
    """Those that are tried before their handler has them, and those that are tried when it asks."""
    monkeypatch.setattr(throttling, "AGAIN", 0.02)
    popen, refused = subprocess.Popen, []

    def refuse_at_first(*arguments, **options):
        if len(refused) < 6:
            refused.append(1)
            raise OSError(errno.EMFILE, "Too many open files")
        return popen(*arguments, **options)

    monkeypatch.setattr(parsing.subprocess, "Popen", refuse_at_first)

    class Pages:
        async def fetch(self, request, *, user_agent, cut=None):
            kind = "text/plain" if "plain" in request.url else "text/html"
            return Response(request.url, 200, Headers([("Content-Type", kind)]), LARGE, 0.0)

        async def close(self):
            pass

    starts = ["http://a.example/plain", "http://b.example/html"]
    crawl = new_crawl(starts, retries=[0.05], fetching=FetchOptions(fetcher=lambda _: Pages(), obey_robots=False))

    @crawl.handler
    def parse(page):
        yield {"paragraphs": len(page.css("p"))}

    done = await run(crawl)
    assert (done.stats.done, done.stats.dead, done.counters.errors) == (2, 0, {"local: descriptors": 6})


def test_without_parsel_a_large_page_says_so(monkeypatch):
    """It is not called hostile because the parser is missing."""
    monkeypatch.setitem(sys.modules, "parsel", None)
    response = Response("http://a.test/", 200, Headers([("Content-Type", "text/html")]), LARGE, 0.0)
    page = Page(Request(response.url), response, "parse", AnyHandlers(), Links(Scope()))
    monkeypatch.setattr("silkline.worker.crawl.page.check_now", lambda *_: pytest.fail("nothing to try"))
    with pytest.raises(ConfigError, match="XPath needs parsel"):
        page.xpath("//p")
