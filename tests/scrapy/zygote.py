"""A process with Scrapy imported and nothing begun: it forks one that runs a command of Scrapy, as often as it is told.

Starting Scrapy takes a second, forking it a moment. Told one line of JSON, it answers one line.
"""

import importlib
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path

from scrapy.downloadermiddlewares import cookies
from tldextract import TLDExtract

IMPORTS = (
    "scrapy.cmdline", "scrapy.crawler", "scrapy.commands.crawl", "scrapy.commands.runspider", "scrapy.core.engine",
    "scrapy.core.downloader.handlers.http11", "scrapy.extensions.feedexport", "scrapy.pipelines", "scrapy.linkextractors",
    "scrapy.downloadermiddlewares.retry", "scrapy.downloadermiddlewares.redirect",
)  # fmt: skip
SILKLINE = (
    "silkline.scrapy.scheduler", "silkline.scrapy.middlewares", "silkline.scrapy.addon", "silkline.frontier.frontier",
)  # fmt: skip


def run(order):
    os.chdir(order["folder"])
    os.environ.update(order["environment"])
    sys.path.insert(0, order["folder"])
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = order["command"]
    try:
        if sys.argv[0] == "scrapy":
            importlib.import_module("scrapy.cmdline").execute()
        else:
            exec(compile(Path(sys.argv[0]).read_text(), sys.argv[0], "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001
        os.write(log, traceback.format_exc().encode())  # whatever became of sys.stderr
        code = 70
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else bool(code))


def main():
    for module in IMPORTS + (SILKLINE if importlib.util.find_spec("silkline") else ()):
        importlib.import_module(module)
    cookies._split_domain = TLDExtract(suffix_list_urls=(), include_psl_private_domains=True)  # asks no other machine
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            run(order)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
