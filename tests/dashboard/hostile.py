"""What the web, and those who write to Redis, may hand us."""

from __future__ import annotations

from silkline import Politeness, Request, SyncFrontier
from silkline.core.proxy_health import ProxyReport
from silkline.core.verdict import Bury, RetryIn
from silkline.frontier.verbs.history import Counts, HandlerCounts

CORPUS = (
    "<script>pwned()</script>",
    '"><img src=x onerror=pwned()>',
    "'><svg/onload=pwned()>",
    "javascript:pwned()",
    "</title></textarea></pre><iframe src=javascript:pwned()>",
    "{{ 7*7 }}{% raw %}<b id=pwned>",
    "<a href='java\tscript:pwned()'>x</a>",
    "\u202egpj.exe\u2066<details open ontoggle=pwned()>",
    "&lt;script&gt;pwned()&lt;/script&gt;",
    "%3Cscript%3Epwned()%3C/script%3E",
    "]]><!--<math><mtext></form><form action=//evil.example>",
    "x" * 3000,
    "a\x00b\x1b[31m",
)
HOSTS = (
    "&lt;script&gt;pwned()",
    'a"onmouseover=pwned()x="',
    "a'onfocus=pwned()x='",
    "under_score",
    "a" + "b" * 40 + "." + "c" * 60,
)
"""Host names that URLs allow."""


def fill(url, crawl):
    """A crawl in which every field that comes from outside holds each text of the corpus."""
    with SyncFrontier.open(url, crawl=crawl, politeness=Politeness(delay=0, concurrency=100)) as frontier:
        frontier.enqueue([Request(f"https://evil.example/{text}?q={text}#{text}", dont_filter=True) for text in CORPUS])
        frontier.claim(100, lease=36_000)
        frontier.enqueue([f"https://reasons.example/{place}" for place in range(2 * len(CORPUS))])
        leases = frontier.claim(100, lease=36_000)
        frontier.settle(
            [(lease, Bury(text, detail=f"{text}\n\t{text}")) for lease, text in zip(leases, CORPUS, strict=False)]
        )
        rest = leases[len(CORPUS) :]
        frontier.settle([(lease, RetryIn(36_000, reason=text)) for lease, text in zip(rest, CORPUS, strict=True)])
        frontier.enqueue([f"https://{host}.example/{'d' * 500}" for host in HOSTS])
        for place, text in enumerate(CORPUS):
            info = dict.fromkeys(("state", "memory", "rate"), text[:900])
            urls = [f"https://evil.example/{text}"[:200], text[:200]]
            frontier.internal.join(
                f"{text[:150]}-{place}",
                info={**info, "trouble": text[:300], "urls": urls, "version": text[:99]},
                expires=36_000,
            )
            frontier.internal.append_audit(text, text, text)
        proxies = [ProxyReport(text, "failed", text) for text in CORPUS]
        frontier.internal.share_proxies("w", 0, (36_000.0, 36_000.0), proxies)
        handlers = {text: HandlerCounts(pages=10**9, failures=10**9).numbers for text in CORPUS}
        frontier.internal.add_history(Counts(), None, handlers)
        frontier.internal.join(
            "odd", info={"urls": "no list", "state": ["a", {"b": "<i>"}], "memory": {"x": 1}}, expires=36_000
        )
        frontier.keep_robots("https://evil.example/", "\n".join(CORPUS).encode(), crawl_delay=5)
        return [letter.id for letter in frontier.admin.dead()]
