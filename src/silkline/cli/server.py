"""Which server a command means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from silkline.core.errors import ConfigError
from silkline.frontier.wishes import embedded_in

_KINDS = "redis://HOST:PORT/DB, rediss://, unix://, redis+cluster://, redis+sentinel:// or embedded:DIR"
_VARIABLE = "SILKLINE_REDIS"

Redis = Annotated[
    str | None,
    Parameter(
        name="--redis",
        env_var=_VARIABLE,
        help=f"Address of the server: {_KINDS}. Without one, the embedded server in .silkline/.",
    ),
]
RedisOrTemporary = Annotated[
    str | None,
    Parameter(
        name="--redis",
        env_var=_VARIABLE,
        help=f"Address of the server: {_KINDS}. Without one, an embedded server in a temporary directory.",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative=(), show_default=False)]


def address(redis: str | None) -> str:
    """The address meant; an empty variable is as good as none."""
    return redis or "embedded:.silkline"


def existing(redis: str | None) -> str:
    """The same for commands that only look: they must not leave an empty server behind."""
    url = address(redis)
    directory = embedded_in(url)
    if directory and not Path(directory).expanduser().is_dir():
        raise ConfigError(
            f"there is no embedded server's data in {directory}; name a server with --redis or SILKLINE_REDIS, "
            "or enqueue something first"
        )
    return url
