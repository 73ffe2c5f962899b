"""How much memory this machine has, how much a process uses, and how often its garbage is collected."""

from __future__ import annotations

import gc
import os
import resource
import sys
from pathlib import Path

from silkline.core.units import parse_bytes
from silkline.errors import ConfigError

SHARE = 0.8
"""The part of the memory of the machine (or its container) that all workers together may use by default."""
THRESHOLDS = (20_000, 20, 20)
"""After how many new objects garbage is collected, and how much more rarely among older ones."""
CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def used_memory(pid: int | str = "self") -> int | None:
    """The resident memory of a process, in bytes; None if the system does not provide it."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_memory() -> int:
    """The most resident memory that this process has used, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def machine_memory() -> int | None:
    """The memory of this machine in bytes, or of its container if that has less; None where it cannot be read."""
    try:
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (ValueError, OSError):  # on systems without these values
        sizes = []
    for file in CGROUPS:
        try:
            sizes.append(int(file.read_text()))
        except (OSError, ValueError):  # there is none, or its limit is "max"
            continue
    return min((size for size in sizes if size > 0), default=None)


def memory_of_a_worker(workers: int) -> int | None:
    """The default memory limit of each of several workers on this machine, in bytes."""
    size = machine_memory()
    return None if size is None or used_memory() is None else int(size * SHARE / max(1, workers))


def relieve_garbage_collector() -> None:
    """Let the garbage collector leave out the objects that exist now, and run less often.

    Modules stay loaded, and pages create many objects. Scanning all of them as often as Python does by default takes a tenth of the time.
    If a process has already frozen objects, or collects its garbage less often than this, these settings stay.
    """
    if not gc.get_freeze_count():
        gc.freeze()
    if gc.isenabled() and 0 < gc.get_threshold()[0] < THRESHOLDS[0]:
        gc.set_threshold(*THRESHOLDS)


def read_size(text: str) -> int | None:
    """Bytes, from "512M", "2G" or "1.5 GiB"; None for "none"."""
    if text.strip().lower() == "none":
        return None
    size = parse_bytes(text)
    if size is None or size < 2**20:
        raise ConfigError(f'a memory limit must be a size such as 512M or 2G, or "none", got {text!r}')
    return size
