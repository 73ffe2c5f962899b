"""One `enqueue` of more requests than anybody wants in memory."""

from __future__ import annotations

from silkline import Admission
from silkline.frontier.verbs.enqueue import PART


def test_requests_are_read_as_they_are_stored(open_sync):
    """When one is read, all but the part that it belongs to are stored: no more than that is kept."""
    frontier, other = open_sync(), open_sync()
    behind = []

    def requests():
        for number in range(4 * PART):
            if number % (PART // 2) == 0:
                behind.append(number - other.admin.stats().accepted)
            yield f"https://h{number % 100}.example/{number}"

    answers = frontier.enqueue(requests())
    assert answers.tally() == {Admission.ADDED: 4 * PART}
    assert len(behind) == 8
    assert max(behind) <= PART


def test_refusals_of_every_part_are_reported_by_their_position(open_sync):
    urls = [f"https://h.example/{number}" for number in range(2 * PART + 10)]
    wrong = [0, PART - 1, PART, 2 * PART + 9]
    for position in wrong:
        urls[position] = f"no URL {position}"
    answers = open_sync().enqueue(urls)
    assert [(refusal.position, refusal.request) for refusal in answers.refusals] == [
        (position, f"no URL {position}") for position in wrong
    ]
    assert [position for position, answer in enumerate(answers) if answer is Admission.REFUSED] == wrong
