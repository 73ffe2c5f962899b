"""``silkline``, and ``python -m silkline``."""

import sys
from importlib import import_module


def main() -> None:
    """The entry point. It handles Ctrl-C from the start, even while modules are still being imported."""
    try:
        start = import_module("silkline.cli.main").main
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    start()


if __name__ == "__main__":
    main()
