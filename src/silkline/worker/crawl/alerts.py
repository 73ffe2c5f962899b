"""Alerts: rules by which a crawl is unhealthy, evaluated by one of its workers at a time.

The worker that holds a lock looks every ten seconds at what the crawl stores anyway. It stores which alerts fire, and calls the webhook
once for each change. If it dies, the next worker continues with what is stored.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import msgspec

from silkline.core.units import format_duration, parse_duration
from silkline.errors import ConfigError, SilklineError
from silkline.frontier.frontier import Frontier
from silkline.frontier.locks.locks import Hold
from silkline.frontier.verbs.alerts import ALERTS, AlertState, pack_alerts, read_alerts
from silkline.frontier.verbs.history import COARSE, Counts, Point
from silkline.frontier.verbs.hosts import HostState
from silkline.frontier.verbs.workers import ALL_WORKERS, WorkerState
from silkline.sinks.sink import Record

log = logging.getLogger(__name__)

WEBHOOK = "SILKLINE_ALERT_WEBHOOK"
"""The environment variable with the address that is called. It may contain a secret, so it is no argument of a process."""
LOCK, LOCK_TTL = "crawl:alerts", 30.0
LOOK_EVERY = 10.0
LEAST = 20
"""Attempts, items or responses from which on a share is judged."""
ENDS_AT = 0.8
"""An alert ends when its value is at most this part of its limit, so that it does not change back and forth."""
HOSTS_LOOKED_AT = 200
FADES = 0.5 ** (1 / 60)
"""By how much the counts of fields fade with each report: to one half in five minutes."""
WEBHOOK_TIMEOUT = 10.0
MOST_FIELDS = 20

KINDS = ("error-rate", "no-items", "missing", "blocked")
EXAMPLES = "error-rate=20%, no-items=30m, missing:price=10%, blocked=50%"


class Alert(NamedTuple):
    """A rule: its text, its kind, the field of items that it is about, and a share or seconds."""

    rule: str
    kind: str
    field: str
    limit: float


def read_alert(rule: str) -> Alert:
    """Return the alert of a rule such as ``error-rate=20%``. Raises `ConfigError` if there is none."""
    if not isinstance(rule, str):
        raise ConfigError(f"an alert must be text such as {EXAMPLES}; got {rule!r:.100}")
    name, _, value = rule.strip().partition("=")
    kind, _, field = name.partition(":")
    if kind not in KINDS or bool(field) != (kind == "missing"):
        raise ConfigError(f"there is no alert {rule!r:.100}; examples: {EXAMPLES}")
    limit = parse_duration(value) if kind == "no-items" else _share(value)
    if kind == "no-items" and (limit is None or not 60 <= limit <= COARSE.span / 2):
        raise ConfigError(f"the time of the alert {rule!r:.100} must be from 1m to 12h, such as {kind}=30m")
    if limit is None:
        raise ConfigError(f"the share of the alert {rule!r:.100} must be from 0% to below 100%, such as {name}=20%")
    return Alert(rule.strip(), kind, field, limit)


def _share(text: str) -> float | None:
    """Return the share in ``20%`` or ``0.2``, from 0 to below 1; None if it is not one."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return share if 0 <= share < 1 else None


# ── judging ──


class Judgement(NamedTuple):
    """Whether an alert fires, and why; whether it ends now."""

    fires: bool
    text: str = ""
    ends: bool = False


class Observed(NamedTuple):
    """What is known of a crawl at one moment."""

    now: float
    lately: Counts
    history: Sequence[Point]
    hosts: Sequence[HostState]
    workers: Sequence[WorkerState]


def judge(alert: Alert, observed: Observed) -> Judgement | None:
    """Return whether an alert fires; None if too little has happened to say so."""
    if alert.kind == "error-rate":
        return _judge_errors(alert, observed.lately)
    if alert.kind == "no-items":
        return _judge_items(alert, observed)
    if alert.kind == "missing":
        return _judge_field(alert, observed.workers)
    return _judge_hosts(alert, observed.hosts)


def _by_share(alert: Alert, part: float, whole: float, text: str) -> Judgement | None:
    if whole < LEAST:
        return None
    return Judgement(part > alert.limit * whole, text, ends=part <= ENDS_AT * alert.limit * whole)


def _judge_errors(alert: Alert, lately: Counts) -> Judgement | None:
    attempts = lately.pages + lately.errors + lately.not_modified + lately.unchanged
    text = f"{_percent(lately.errors, attempts)} of {attempts:,} attempts failed in the last five minutes"
    return _by_share(alert, lately.errors, attempts, text)


def _judge_items(alert: Alert, observed: Observed) -> Judgement | None:
    """Judge how long pages have been fetched since the last item."""
    since = None
    for point in observed.history:
        if point.items:
            since = None
        elif since is None and point.pages + point.errors:
            since = point.time
    lasts = observed.now - since if since is not None else 0.0
    return Judgement(
        lasts >= alert.limit, f"no items for {format_duration(alert.limit)}, although pages were fetched", ends=True
    )


def _judge_field(alert: Alert, workers: Sequence[WorkerState]) -> Judgement | None:
    items = missing = 0.0
    for worker in workers:
        counted = worker.info.get("fields") if worker.alive else None
        pair = counted.get(alert.field) if isinstance(counted, dict) else None
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, int | float) for one in pair):
            items, missing = items + pair[0], missing + pair[1]
    return _by_share(
        alert, missing, items, f"the field {alert.field} is missing on {_percent(missing, items)} of the recent items"
    )


def _judge_hosts(alert: Alert, hosts: Sequence[HostState]) -> Judgement | None:
    judged = {host.host: counts for host in hosts if (counts := host.answers) and counts.total >= LEAST}
    if not judged:
        return None
    share = {name: counts.status_4xx / counts.total for name, counts in judged.items()}
    worst = max(share, key=lambda name: share[name])
    blocking = sum(one > alert.limit for one in share.values())
    others = f", and {blocking - 1:,} other hosts" if blocking > 1 else ""
    text = f"{worst} replies with 4xx to {share[worst]:.0%} of the recent requests{others}"
    return Judgement(blocking > 0, text, ends=share[worst] <= ENDS_AT * alert.limit)


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "0%"


def next_states(
    alerts: Sequence[Alert], before: Sequence[AlertState], observed: Observed, *, calls: bool
) -> list[AlertState]:
    """Return the states after a look. A state changes only if its alert begins to fire, or ends. With *calls*, there is a webhook."""
    known = {state.rule: state for state in before}
    states = []
    for alert in alerts:
        state = known.get(alert.rule, AlertState(alert.rule))
        judgement = judge(alert, observed)
        if judgement and judgement.fires != state.firing and (judgement.fires or judgement.ends):
            text = judgement.text if judgement.fires else state.text
            state = AlertState(alert.rule, judgement.fires, text, observed.now, pending=calls)
        states.append(state)
    return states


# ── counting fields ──


class FieldCounter:
    """A sink that counts items without a value in certain fields."""

    def __init__(self, fields: Sequence[str]) -> None:
        self._counts = {field: [0.0, 0.0] for field in fields[:MOST_FIELDS]}

    async def write(self, records: Sequence[Record]) -> None:
        """Count the items. It must not fail."""
        for field, counts in self._counts.items():
            counts[0] += len(records)
            counts[1] += sum(record.item.get(field) in (None, "", [], {}) for record in records)

    async def close(self) -> None:
        """Nothing is open."""

    def report(self) -> Mapping[str, Sequence[float]]:
        """Return items and missing values by field, and let them fade."""
        found = {field: [round(count, 2) for count in counts] for field, counts in self._counts.items()}
        for counts in self._counts.values():
            counts[:] = [count * FADES for count in counts]
        return found


# ── watching ──


class AlertWatch:
    """Evaluates the alerts of a crawl while this worker holds their lock."""

    def __init__(self, frontier: Frontier, alerts: Sequence[Alert], webhook: Webhook | None = None) -> None:
        self._frontier = frontier
        self._alerts = alerts
        self._webhook = webhook if webhook is not None else Webhook.from_environment()
        self._lock = frontier.lock(LOCK, LOCK_TTL)

    async def run(self, every: float = LOOK_EVERY) -> None:
        """Evaluate the alerts now and then, until cancelled."""
        while True:
            with suppress(SilklineError):  # the connection has logged it; what was not stored is judged again
                hold = await self._lock.acquire(wait=0)
                if hold:
                    try:
                        while not hold.lost and await self.look(hold):  # noqa: ASYNC110 - a look is no event
                            await asyncio.sleep(every)
                    finally:
                        await hold.release()
            await asyncio.sleep(every)

    async def look(self, hold: Hold) -> bool:
        """Judge all alerts, store what has changed, and call the webhook. Returns False if another worker has the lock now."""
        before = read_alerts(await self._frontier.internal.feed_position(ALERTS))
        states = next_states(self._alerts, before, await self._observe(), calls=self._webhook is not None)
        if states != list(before):
            for state in states:
                if state not in before and (state.firing or state.text):
                    word = "fires" if state.firing else "has ended"
                    log.warning("the alert %s %s: %s", state.rule, word, state.text)
            if not await self._store(hold, states):
                return False
        return await self._call(hold, states)

    async def _observe(self) -> Observed:
        admin, kinds = self._frontier.admin, {alert.kind for alert in self._alerts}
        longest = max((alert.limit for alert in self._alerts if alert.kind == "no-items"), default=0.0)
        status = await admin.status()
        return Observed(
            now=status.activity.time,
            lately=status.activity.five_minutes,
            history=await admin.history(since=2 * longest) if longest else (),
            hosts=await admin.hosts(limit=HOSTS_LOOKED_AT) if "blocked" in kinds else (),
            workers=await admin.workers(limit=ALL_WORKERS) if "missing" in kinds else (),
        )

    async def _store(self, hold: Hold, states: Sequence[AlertState]) -> bool:
        packed = pack_alerts(states)
        return await self._frontier.internal.feed_position(ALERTS, hold.token, packed) == packed

    async def _call(self, hold: Hold, states: list[AlertState]) -> bool:
        """Call the webhook for changes that it has not accepted. It is called again at the next look if it fails."""
        for place, state in enumerate(states):
            if not state.pending or self._webhook is None or hold.lost:
                continue
            if await asyncio.to_thread(self._webhook.call, payload_of(self._frontier.crawl, state)):
                states[place] = msgspec.structs.replace(state, pending=False)
                if not await self._store(hold, states):
                    return False
        return True


def payload_of(crawl: str, state: AlertState) -> dict[str, Any]:
    """Return what the webhook gets. The id is the same if the same change is sent again."""
    word = "firing" if state.firing else "resolved"
    return {
        "id": f"{crawl}/{state.rule}/{state.since:.0f}/{word}",
        "crawl": crawl,
        "alert": state.rule,
        "state": word,
        "since": state.since,
        "text": f"{crawl}: the alert {state.rule} is {word}: {state.text}",
    }


class Webhook:
    """An address that gets alerts as JSON. Its path and query may be secret, so they are never shown."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{WEBHOOK} must be an address that begins with https:// or http://")
        self._url = url
        self._name = parts.hostname
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
        self._failing = False

    def __repr__(self) -> str:
        return f"<Webhook at {self._name}>"

    @classmethod
    def from_environment(cls) -> Webhook | None:
        url = os.environ.get(WEBHOOK, "").strip()
        return cls(url) if url else None

    def call(self, payload: Mapping[str, Any]) -> bool:
        """Send one change. Returns whether it was accepted. The first failure is logged."""
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self._url, json.dumps(payload).encode(), {"Content-Type": "application/json", "User-Agent": "Silkline"}
        )
        try:
            with self._opener.open(request, timeout=WEBHOOK_TIMEOUT):
                self._failing = False
                return True
        except HTTPError as error:
            why = f"status {error.code}"
            error.close()
        except (URLError, OSError, http.client.HTTPException, ValueError) as error:
            why = type(error).__name__
        if not self._failing:
            log.warning("the alert webhook at %s failed (%s); it is called again until it accepts", self._name, why)
        self._failing = True
        return False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the call into a GET without its content."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None
