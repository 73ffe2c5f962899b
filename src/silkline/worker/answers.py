"""What the hosts answered since it was told last; presence tells it, and begins anew."""

from __future__ import annotations

from silkline.frontier.answers import Answers

MOST_HOSTS = 100
"""Hosts that are told of at a time, so that telling stays cheap. Of a broader crawl those met first, each time anew."""


class HostAnswers:
    """The answers of a worker's pages, by host."""

    def __init__(self) -> None:
        self._hosts: dict[str, Answers] = {}

    def note(self, host: str, status: int | None) -> None:
        """Count one answer of a host; None is a fetch without any."""
        answers = self._hosts.get(host)
        if answers is None:
            if len(self._hosts) >= MOST_HOSTS:
                return
            answers = self._hosts[host] = Answers()
        answers.note(status)

    def take(self) -> dict[str, Answers]:
        """All of it; counting begins anew."""
        taken, self._hosts = self._hosts, {}
        return taken
