"""``silkline completion``."""

from __future__ import annotations

import subprocess

import pytest

from silkline.cli.main import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_every_shell(capsys, shell):
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("explain", "revive", "dry-run", "doctor"):
        assert word in script
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script.encode(), check=False).returncode == 0


def test_it_is_installed_for_the_user(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["completion", "bash", "--install"]) == 0
    [script] = [path for path in tmp_path.rglob("*") if path.is_file() and "_silkline()" in path.read_text()]
    assert str(script) in capsys.readouterr().out


def test_what_is_wrong_gets_a_sentence_and_code_2(capsys):
    assert run(["completion", "tcsh"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
