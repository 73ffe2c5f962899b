"""The metrics of a crawl. They are read from the server, so every process reports the same values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

from silkline.core.proxy_health import ProxyHealth, ProxyState
from silkline.frontier.admin_verbs.forecast import seconds_until_full, seconds_until_out_of_memory
from silkline.frontier.admin_verbs.stats import STATES, CrawlStatus, Demand, Stats, StatusWord
from silkline.frontier.admin_verbs.task_states import TaskState
from silkline.frontier.frontier import Frontier
from silkline.frontier.transport.server_info import Memory
from silkline.frontier.verbs.history import OTHERS, WAIT_BOUNDS, WAITS, Counts, HandlerCounts
from silkline.frontier.verbs.hosts import HostState
from silkline.frontier.verbs.proxies import MOST_PROXIES
from silkline.frontier.verbs.workers import ALL_WORKERS, WorkerState
from silkline.ops.notices import NoticeKind, crawl_notices, is_out_of_memory, memory_notice
from silkline.ops.prometheus import Family, Sample, counter, gauge, histogram
from silkline.runtime.presence import installed_version

TOP_HOSTS = 10
"""Number of hosts with their own time series: one for each of 100,000 hosts would overload Prometheus."""
HOSTS_LOOKED_AT = 200
"""Number of hosts among which the ten longest queues are searched."""


TOP_TASKS = 50
"""Number of tasks with their own time series: those with the most calls."""
TOP_PRIORITIES = 10
"""Number of priorities with their own time series; others are counted together."""
PROXY_COUNTS = ("fetched", "failed", "blocked")
TOP_HANDLERS = 20
"""Number of handlers with their own time series; others are counted together."""


async def crawl_families(frontier: Frontier) -> list[Family]:
    """Read the state of the crawl and return it as metric families."""
    status, demand, memory = (
        await frontier.admin.status(),
        await frontier.admin.demand(),
        await frontier.internal.memory(),
    )
    hosts, workers = await frontier.admin.hosts(limit=HOSTS_LOOKED_AT), await frontier.admin.workers(limit=ALL_WORKERS)
    stats, handlers = status.stats, await frontier.admin.handlers()
    return [
        *of_stats(stats),
        of_status(status),
        of_room(status, memory),
        *of_forecast(status, memory),
        of_waits(stats.crawl, status.activity.total),
        of_revisits(stats.crawl, status.activity.total),
        of_alerts(status),
        of_notices(status, memory, workers, handlers),
        *of_demand(stats.crawl, demand),
        *of_hosts(stats.crawl, hosts),
        *of_handlers(stats.crawl, handlers),
        *of_tasks(stats.crawl, await frontier.admin.tasks()),
        *of_proxies(stats.crawl, await frontier.admin.proxies(limit=MOST_PROXIES)),
        *of_memory(memory),
        of_workers(stats.crawl, workers),
    ]


def of_stats(stats: Stats) -> list[Family]:
    crawl = stats.crawl
    by_state = [Sample(getattr(stats, state), {"crawl": crawl, "state": state}) for state in STATES]
    places = (("ready", stats.hosts_ready), ("waiting", stats.hosts_waiting))
    hosts = [Sample(count, {"crawl": crawl, "place": place}) for place, count in places]
    top = dict(list(stats.priorities.items())[:TOP_PRIORITIES])
    waiting = [Sample(count, {"crawl": crawl, "priority": f"{priority}"}) for priority, count in top.items()]
    if rest := sum(stats.priorities.values()) - sum(top.values()):
        waiting.append(Sample(rest, {"crawl": crawl, "priority": OTHERS}))
    return [
        Family("silkline_requests", "gauge", "Requests by state.", by_state),
        Family("silkline_hosts", "gauge", "Hosts with requests, by whether they may be claimed now.", hosts),
        Family(
            "silkline_ready_requests", "gauge", "Ready requests by priority; the ten highest, and the rest.", waiting
        ),
        gauge("silkline_results", "Results of completed requests that are kept.", stats.results, crawl=crawl),
        gauge("silkline_result_bytes", "Memory of these results.", stats.result_bytes, crawl=crawl),
        gauge("silkline_open", "1 unless the crawl is paused or cancelled.", stats.state == "open", crawl=crawl),
        gauge("silkline_capacity", "Maximum number of queued requests.", stats.capacity, crawl=crawl),
        gauge("silkline_overflow_requests", "Links in overflow files.", stats.overflow, crawl=crawl),
        counter(
            "silkline_overflow_refused_total",
            "Links dropped because an overflow file held too many links of their host.",
            stats.overflow_refused,
            crawl=crawl,
        ),
        gauge(
            "silkline_dead_limit",
            "Maximum number of dead letters; 0 without a limit.",
            stats.dead_limit,
            crawl=crawl,
        ),
        counter(
            "silkline_dead_dropped_total", "Dead letters dropped beyond the limit.", stats.dead_dropped, crawl=crawl
        ),
        gauge("silkline_seen", "Fingerprints in the seen filter.", stats.seen, crawl=crawl),
        gauge(
            "silkline_expected_skips",
            "Expected number of URLs that the seen filter has wrongly taken for seen.",
            stats.expected_skips,
            crawl=crawl,
        ),
        counter("silkline_accepted_total", "Requests accepted.", stats.accepted, crawl=crawl),
        counter("silkline_duplicates_total", "Enqueued requests that were seen before.", stats.duplicates, crawl=crawl),
        counter("silkline_turned_away_total", "Enqueued requests that did not fit.", stats.turned_away, crawl=crawl),
        counter("silkline_leases_expired_total", "Expired leases.", stats.rescued, crawl=crawl),
        counter(
            "silkline_late_tokens_total", "Verdicts refused because the lease had expired.", stats.late, crawl=crawl
        ),
        counter("silkline_losses_total", "Times that the server lost recent writes.", stats.losses, crawl=crawl),
    ]


def of_status(status: CrawlStatus) -> Family:
    """One time series per state, so that an alert can ask for one of them."""
    crawl = status.stats.crawl
    words = [Sample(word == status.word, {"crawl": crawl, "status": word}) for word in get_args(StatusWord)]
    return Family("silkline_crawl_status", "gauge", "1 for the current status of the crawl, 0 for the others.", words)


def of_room(status: CrawlStatus, memory: Memory) -> Family:
    """One time series per reason why new requests find no room."""
    reasons = {"capacity": status.stats.full, "memory": is_out_of_memory(memory)}
    samples = [Sample(full, {"crawl": status.stats.crawl, "reason": reason}) for reason, full in reasons.items()]
    text = "1 if new requests find no room: a shard of the crawl is at its capacity, or the server is out of memory."
    return Family("silkline_full", "gauge", text, samples)


def of_forecast(status: CrawlStatus, memory: Memory) -> list[Family]:
    crawl, rate = status.stats.crawl, "if it grows as in the last half hour; +Inf if it does not grow."
    return [
        gauge(
            "silkline_seconds_until_full",
            f"Seconds until the crawl is at its capacity, {rate}",
            seconds_until_full(status),
            crawl=crawl,
        ),
        gauge(
            "silkline_seconds_until_out_of_memory",
            f"Seconds until the server is out of memory, {rate}",
            seconds_until_out_of_memory(memory, [status]),
            crawl=crawl,
        ),
    ]


def of_waits(crawl: str, counts: Counts) -> Family:
    """Return the histogram of waiting times since the crawl began."""
    samples, total = [], 0
    for bound, name in zip((*WAIT_BOUNDS, math.inf), WAITS, strict=True):
        total += getattr(counts, name)
        label = "+Inf" if math.isinf(bound) else f"{bound}"
        samples.append(Sample(total, {"crawl": crawl, "le": label}, "_bucket"))
    samples.append(Sample(counts.waited_ms / 1000, {"crawl": crawl}, "_sum"))
    samples.append(Sample(total, {"crawl": crawl}, "_count"))
    text = "How long requests had waited when they were claimed for the first time, rounded up to a second."
    return Family("silkline_wait_seconds", "histogram", text, samples)


def of_revisits(crawl: str, counts: Counts) -> Family:
    """Return how many visits were repeated ones since the crawl began, by what they found."""
    found = {"not_modified": counts.not_modified, "unchanged": counts.unchanged}
    found["handled"] = counts.revisited - sum(found.values())
    samples = [Sample(count, {"crawl": crawl, "result": result}) for result, count in found.items()]
    return Family("silkline_revisits_total", "counter", "Visits of pages that had been visited before.", samples)


def of_alerts(status: CrawlStatus) -> Family:
    """One time series per alert of the crawl: 1 while it fires."""
    samples = [
        Sample(alert.firing, {"crawl": status.stats.crawl, "alert": alert.rule}) for alert in status.activity.alerts
    ]
    return Family("silkline_alert", "gauge", "1 for each alert of the crawl that fires, 0 for the others.", samples)


def of_notices(
    status: CrawlStatus, memory: Memory, workers: Sequence[WorkerState], handlers: Mapping[str, HandlerCounts]
) -> Family:
    """One time series per kind of notice, so that an alert that was raised also ends."""
    of_server = memory_notice(memory, [status])
    found = [*([of_server] if of_server else []), *crawl_notices(status, workers, handlers)]
    kinds, crawl = {notice.kind for notice in found}, status.stats.crawl
    samples = [Sample(kind in kinds, {"crawl": crawl, "kind": kind}) for kind in get_args(NoticeKind)]
    return Family("silkline_crawl_notice", "gauge", "1 for each kind of notice that the crawl has.", samples)


def of_demand(crawl: str, demand: Demand) -> list[Family]:
    return [
        gauge(
            "silkline_oldest_eligible_seconds",
            "Longest time that a host has been ready without being claimed.",
            demand.oldest,
            crawl=crawl,
        ),
        gauge(
            "silkline_useful_concurrency", "Pages that could be fetched in parallel now.", demand.useful, crawl=crawl
        ),
    ]


def of_hosts(crawl: str, hosts: Sequence[HostState]) -> list[Family]:
    top = sorted(hosts, key=lambda host: (-host.queued, host.host))[:TOP_HOSTS]

    def samples(name: str) -> list[Sample]:
        return [Sample(getattr(host, name), {"crawl": crawl, "host": host.host}) for host in top]

    return [
        Family(
            "silkline_host_backlog", "gauge", "Queued requests of the hosts with the longest queues.", samples("queued")
        ),
        Family("silkline_host_leased", "gauge", "Requests in progress on these hosts.", samples("leased")),
        Family("silkline_host_delay_seconds", "gauge", "Current delay of these hosts.", samples("delay")),
    ]


def of_handlers(crawl: str, handlers: Mapping[str, HandlerCounts]) -> list[Family]:
    names = list(handlers)[:TOP_HANDLERS]
    top: dict[str, HandlerCounts] = {}
    for name, counts in handlers.items():
        top.setdefault(name if name in names else OTHERS, HandlerCounts()).add(counts)

    def family(name: str, help_: str) -> Family:
        samples = [Sample(getattr(one, name), {"crawl": crawl, "handler": handler}) for handler, one in top.items()]
        return Family(f"silkline_handler_{name}_total", "counter", help_, samples)

    timings = {handler: one.timing for handler, one in top.items() if one.timing.count}
    return [
        family("pages", "Pages that the handler completed."),
        family("items", "Items of these pages."),
        family("failures", "Attempts at pages of the handler that were retried or buried."),
        family("exceptions", "Exceptions of the handler."),
        family("dead", "Requests of the handler that became dead letters."),
        histogram("silkline_handler_seconds", "How long the handler ran.", timings, "handler", crawl=crawl),
    ]


def of_tasks(crawl: str, tasks: Sequence[TaskState]) -> list[Family]:
    def samples(name: str) -> list[Sample]:
        values = [(task.name, getattr(task, name)) for task in tasks[:TOP_TASKS]]
        return [Sample(value, {"crawl": crawl, "task": task}) for task, value in values if value is not None]

    tick = "Unix time of the next call of a recurring task."
    return [
        Family("silkline_task_waiting", "gauge", "Calls of the task that wait for a worker.", samples("waiting")),
        Family("silkline_task_delayed", "gauge", "Calls of the task that wait for their time.", samples("delayed")),
        Family("silkline_task_running", "gauge", "Calls of the task in progress.", samples("running")),
        Family("silkline_task_next_tick_seconds", "gauge", tick, samples("next_tick")),
    ]


def of_proxies(crawl: str, proxies: Sequence[ProxyState]) -> list[Family]:
    """Return what is known of all proxies together: a pool may have thousands. A crawl without proxies has none of these."""
    if not proxies:
        return []
    states = Counter(proxy.state for proxy in proxies)
    fetched, failed, blocked = (sum(getattr(proxy, name) for proxy in proxies) for name in PROXY_COUNTS)
    samples = [Sample(states[state], {"crawl": crawl, "state": state}) for state in get_args(ProxyHealth)]
    families = [Family("silkline_proxies", "gauge", "Proxies by state.", samples)]
    if fetched + failed:
        text = "Share of recent fetches through proxies in which the proxy failed."
        families.append(gauge("silkline_proxy_failed_ratio", text, failed / (fetched + failed), crawl=crawl))
    if fetched:
        text = "Share of recent responses through proxies with the status 403 or 429."
        families.append(gauge("silkline_proxy_blocked_ratio", text, blocked / fetched, crawl=crawl))
        spent = sum((proxy.latency or 0.0) * proxy.fetched for proxy in proxies)
        families.append(
            gauge(
                "silkline_proxy_seconds", "Mean time of recent responses through proxies.", spent / fetched, crawl=crawl
            )
        )
    return families


def of_memory(memory: Memory) -> list[Family]:
    evicted = "Keys that the server evicted since it started: requests may be lost."
    families = [
        gauge("silkline_redis_memory_bytes", "Memory used by the server.", memory.used),
        counter("silkline_redis_evicted_keys_total", evicted, memory.evicted),
        gauge("silkline_redis_clients", "Connections of clients to the server.", memory.clients),
        gauge(
            "silkline_build_info",
            "1; the label is the version of the process that is scraped.",
            1,
            version=installed_version(),
        ),
    ]
    if memory.limit is not None and memory.headroom is not None:
        families += [
            gauge("silkline_redis_memory_limit_bytes", "Memory limit of the server.", memory.limit),
            gauge("silkline_redis_headroom_bytes", "Memory available until the limit.", memory.headroom),
        ]
    return families


def of_cluster(state: str | None) -> list[Family]:
    """Nothing if the server is no cluster, or its state is not known."""
    text = "1 if all slots of the cluster are served, as one of its nodes sees it."
    return [] if state is None else [gauge("silkline_redis_cluster_ok", text, state == "ok")]


def of_workers(crawl: str, workers: Sequence[WorkerState]) -> Family:
    alive = [worker for worker in workers if worker.alive]
    counts = {state: sum(worker.info.get("state") == state for worker in alive) for state in ("quiet", "stopping")}
    counts = {"working": len(alive) - sum(counts.values()), **counts}  # a worker that reports no other state is working
    samples = [Sample(count, {"crawl": crawl, "state": state}) for state, count in counts.items()]
    samples.append(Sample(len(workers) - len(alive), {"crawl": crawl, "state": "lost"}))
    return Family("silkline_workers", "gauge", "Workers by state; lost workers of the last hour included.", samples)
