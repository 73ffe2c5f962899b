"""``python -m silkline`` is the command ``silkline``."""

from silkline.cli.main import main

main()
