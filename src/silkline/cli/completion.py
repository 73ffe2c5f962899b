"""``silkline completion``: shell completion of commands and options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.errors import ConfigError

Shell = Literal["bash", "zsh", "fish"]


def completion_of(app: App) -> App:
    """Return the command that prints completion scripts for *app*."""

    def completion(
        shell: Shell | None = None,
        /,
        *,
        install: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    ) -> int:
        """Print or install the completion script of a shell.

        Examples:
          silkline completion --install
          silkline completion bash > /etc/bash_completion.d/silkline

        Exit code: 0, 2 wrong usage or unknown shell.

        Parameters
        ----------
        shell
            The shell. [default: the current shell]
        install
            Install the script for the current user.
        """
        try:
            if install:
                where: Path = app.install_completion(shell=shell)
                screen.show(f"Written to {where}. Start a new shell to use it.")
            else:
                sys.stdout.write(app.generate_completion(prog_name="silkline", shell=shell))
        except (ValueError, OSError, RuntimeError) as error:
            raise ConfigError(f"{error}; name the shell: silkline completion bash, zsh or fish") from None
        return Exit.OK

    made = App(name="completion", help_format="plaintext", usage="Usage: silkline completion [SHELL] [--install]")
    made.default(completion)
    return made
