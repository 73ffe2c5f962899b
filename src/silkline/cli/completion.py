"""``silkline completion``: have the shell complete commands and options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from silkline.cli import screen
from silkline.cli.exits import Exit
from silkline.core.errors import ConfigError

Shell = Literal["bash", "zsh", "fish"]


def completion_of(app: App) -> App:
    """The command that completes *app*."""

    def completion(
        shell: Shell | None = None,
        /,
        *,
        install: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    ) -> int:
        """Print the completion script of a shell, or install it.

        Examples:
          silkline completion --install
          silkline completion bash > /etc/bash_completion.d/silkline

        Exit code: 0, 2 wrong usage or a shell that is not known.

        Parameters
        ----------
        shell
            bash, zsh or fish. [the one that runs this]
        install
            Write the script where the shell finds it, for this user, and say where that is.
        """
        try:
            if install:
                where: Path = app.install_completion(shell=shell)
                screen.show(f"Written to {where}. It works in shells that are started from now on.")
            else:
                sys.stdout.write(app.generate_completion(prog_name="silkline", shell=shell))
        except (ValueError, OSError, RuntimeError) as error:
            raise ConfigError(f"{error}; name the shell: silkline completion bash, zsh or fish") from None
        return Exit.OK

    made = App(name="completion", help_format="plaintext", usage="Usage: silkline completion [SHELL] [--install]")
    made.default(completion)
    return made
