"""examples/deploy: the compose file and the units are valid, fit together, and start in any order; the image can be built."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from silkline.cli.main import app
from silkline.testing import LocalSite
from tests.cli.processes import Running
from tests.servers import Server

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
UNITS = sorted(DEPLOY.glob("*.service"))

TEXT, TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
SERVICE = {  # compose-spec.io, 05-services
    "type": "object",
    "additionalProperties": False,
    "required": ["image"],
    "properties": {
        "image": TEXT,
        "build": {
            "type": "object",
            "additionalProperties": False,
            "required": ["context"],
            "properties": {"context": TEXT, "dockerfile": TEXT, "target": TEXT, "args": {"type": "object"}},
        },
        "command": TEXTS,
        "entrypoint": TEXTS,
        "init": {"type": "boolean"},
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "environment": {"type": "object", "additionalProperties": TEXT},
        "volumes": {"type": "array", "items": {"type": "string", "pattern": r"^[^:]+:/[^:]+(:ro)?$"}},
        "ports": {"type": "array", "items": {"type": "string", "pattern": r"^([\d.]+:)?\d+:\d+$"}},
        "stop_grace_period": {"type": "string", "pattern": r"^\d+(s|m)$"},
        "depends_on": {"type": "object"},
        "deploy": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"replicas": {"type": "integer"}, "resources": {"type": "object"}},
        },
        "healthcheck": {
            "type": "object",
            "additionalProperties": False,
            "required": ["test"],
            "properties": {"test": TEXTS, "interval": TEXT, "timeout": TEXT, "retries": {"type": "integer"}},
        },
    },
}
COMPOSE_FILE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["services"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "volumes": {"type": "object", "additionalProperties": {"type": "object", "maxProperties": 0}},
    },
}


def test_the_compose_file_is_as_its_schema_has_it():
    jsonschema.validate(COMPOSE, COMPOSE_FILE)


@pytest.mark.parametrize(
    "change", [{"retsart": "always"}, {"restart": "never"}, {"ports": ["7455"]}, {"command": "worker crawl.py"}]
)
def test_a_wrong_compose_file_is_refused(change):
    broken = json.loads(json.dumps(COMPOSE))
    broken["services"]["worker"] |= change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, COMPOSE_FILE)


def test_the_compose_file_names_what_is_there():
    ours = {name: service for name, service in SERVICES.items() if service["image"] == "silkline"}
    assert set(ours) == {"start", "worker", "dashboard"}
    for service in ours.values():
        app.parse_args(service["command"], exit_on_error=False, print_error=False)
        assert service["environment"]["SILKLINE_REDIS"] == "redis://redis:6379/0"
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or source == "./crawl.py" or (DEPLOY / source).is_file()
        assert "depends_on" not in service, "they start in any order"
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", ()))


def server_settings():
    lines = [
        line.split(maxsplit=1) for line in (DEPLOY / "valkey.conf").read_text().splitlines() if line and line[0] != "#"
    ]
    return {name: value.strip('"') for name, value in lines}


CRAWL = """
from silkline import Crawl, FetchOptions, Politeness

crawl = Crawl("books", ["{start}"], politeness=Politeness(delay=0), fetching=FetchOptions(allow_private=True))


@crawl.handler
def parse(page):
    yield {{"url": page.url}}
    yield page.follow(page.css("a"))
"""


async def test_the_services_start_in_any_order(tmp_path):
    """Workers before there is a crawl. (Without a server they exit, and are started again by the engine or systemd.)"""
    settings = server_settings()
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["appendonly"] == "yes"
    server = Server("valkey", **settings).start()

    def command(service):
        paths = {"/crawl/": f"{tmp_path}/", "/data/": f"{tmp_path}/"}
        words = SERVICES[service]["command"]
        return [next((word.replace(*path) for path in paths.items() if path[0] in word), word) for word in words]

    pages = {f"/{n}": f'<a href="/{n + 1}">next</a>' for n in range(12)}
    async with LocalSite({**pages, "/12": "the last page"}) as site:
        (tmp_path / "crawl.py").write_text(CRAWL.format(start=site.at("/0")))
        running = []
        try:
            running += [
                Running(*command("worker"), cwd=tmp_path, SILKLINE_REDIS=server.url)
                for _ in range(SERVICES["worker"]["deploy"]["replicas"])
            ]
            for worker in running:
                worker.wait_for("wait")
            running.append(start := Running(*command("start"), cwd=tmp_path, SILKLINE_REDIS=server.url))
            assert start.end() == 0
            with server.client() as client:
                while int(client.hget("silkline:{books:0}:ledger", "done") or 0) < 13:
                    assert all(worker.process.poll() is None for worker in running[:2]), running[0].err
                    await asyncio.sleep(0.05)
            again = Running(*command("start"), cwd=tmp_path, SILKLINE_REDIS=server.url)
            running.append(again)
            assert again.end() == 0
            for worker in running[:2]:
                worker.process.send_signal(signal.SIGTERM)
            assert [worker.end() for worker in running[:2]] == [0, 0]
        finally:
            for process in running:
                process.close()
            server.remove()
    items = (tmp_path / "items.jsonl").read_text().splitlines()
    assert sorted(json.loads(item)["url"] for item in items) == sorted(site.at(f"/{n}") for n in range(13))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_units_are_valid(path):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(path)
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert program == "/opt/silkline/bin/silkline"
    app.parse_args([word.replace("${CRAWL}", "books.py") for word in arguments], exit_on_error=False, print_error=False)
    assert unit["Service"]["Restart"] == "always"
    if arguments[0] == "worker":
        assert int(unit["Service"]["TimeoutStopSec"]) > 20, "a worker needs the time to drain"
    if verify := shutil.which("systemd-analyze"):
        verify_unit(verify, path)


def verify_unit(program, path):
    """systemd warns of keys that it does not know; the program and the user of the unit are not on this machine."""
    name = path.name.replace("@", "@1")
    told = subprocess.run(
        [program, "verify", name],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{DEPLOY}:"},
    )
    assert "Unknown" not in told.stderr, told.stderr
    assert "Failed to parse" not in told.stderr, told.stderr


def steps(stage):
    """The instructions of one stage of the Containerfile, with their words."""
    text = re.sub(r"\\\n", "", (DEPLOY / "Containerfile").read_text())
    stages = re.split(r"^FROM .*$", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    return [line.split(maxsplit=1) for line in stages[stage].splitlines() if line]


def test_the_containerfile_copies_what_is_there():
    for stage in (0, 1):
        assert {name for name, _ in steps(stage)} <= {"RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}
    copied = [word for name, rest in steps(0) if name == "COPY" for word in rest.split()[:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_image_is_built_by_the_steps_of_the_containerfile(tmp_path):
    """In bare Debian trees, as root: a container engine is not needed."""
    if os.getuid() or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    base = tmp_path / "base"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "bookworm", base, *mirror()], check=True, stdout=subprocess.DEVNULL
    )
    trees = [tmp_path / "build", tmp_path / "image"]
    for stage, tree in enumerate(trees):
        subprocess.run(["cp", "-a", base, tree], check=True)
        prepare(tree)
        folder, variables = "/", {}
        for name, rest in steps(stage):
            if name == "WORKDIR":
                folder = rest
                (tree / folder[1:]).mkdir(exist_ok=True)
            elif name == "ENV":
                variables |= dict([rest.split("=", 1)])
            elif name == "COPY":
                *sources, target = [word for word in rest.split() if not word.startswith("--from")]
                origin = trees[0] if "--from" in rest else ROOT
                into = tree / (target if target.startswith("/") else f"{folder}/{target}").lstrip("/")
                for source in sources:
                    subprocess.run(["cp", "-a", origin / source.lstrip("/"), into], check=True)
            elif name == "RUN":
                subprocess.run(
                    ["chroot", tree, "sh", "-ec", f"cd {folder}; {rest}"], check=True, env={**os.environ, **variables}
                )
    shown = subprocess.run(
        [shutil.which("chroot"), "--userspec=1000", trees[1], "silkline", "--version"],
        capture_output=True, text=True, check=True, env={**os.environ, **variables},
    )  # fmt: skip
    assert shown.stdout.startswith("silkline ")


def mirror():
    """The Debian mirror of this machine, if it names one."""
    found = re.search(r"^(?:URIs:|deb) +(http\S+)", "".join(path.read_text() for path in sources()), re.MULTILINE)
    return found.groups() if found else ()


def sources():
    return [path for path in Path("/etc/apt").rglob("*") if path.suffix in {".sources", ".list"}]


def prepare(tree):
    """Give a tree what a container engine gives to an image: names, and here also the registries of this machine."""
    for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"):
        if Path(path).exists():
            shutil.copy(path, tree / path[1:])
    if Path("/root/.config/pip").exists():
        shutil.copytree("/root/.config/pip", tree / "root/.config/pip", dirs_exist_ok=True)
    certificates = "usr/local/share/ca-certificates"
    shutil.copytree(f"/{certificates}", tree / certificates, dirs_exist_ok=True)
    for path in sources():
        shutil.copy(path, tree / "etc/apt" / ("sources.list.d" if path.parent.name.endswith(".d") else ""))
