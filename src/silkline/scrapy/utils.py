"""The functions of ``scrapy_redis.utils``, for projects that import them."""

from __future__ import annotations

import json
from typing import Any


class TextColor:
    """Escape sequences for terminal colors."""

    HEADER = "\033[95m"
    OKBLUE = "\033[94m"
    OKCYAN = "\033[96m"
    OKGREEN = "\033[92m"
    WARNING = "\033[93m"
    FAIL = "\033[91m"
    ENDC = "\033[0m"
    BOLD = "\033[1m"
    UNDERLINE = "\033[4m"


def bytes_to_str(s: Any, encoding: str = "utf-8") -> Any:
    """Decode bytes, and return any other value unchanged."""
    return s.decode(encoding) if isinstance(s, bytes) else s


def is_dict(string_content: str | bytes) -> bool:
    """Return whether a string is a JSON object."""
    try:
        return isinstance(json.loads(string_content), dict)
    except ValueError:
        return False


def convert_bytes_to_str(data: Any, encoding: str = "utf-8") -> Any:
    """Decode bytes, also inside of dicts and tuples."""
    if isinstance(data, bytes):
        return data.decode(encoding)
    if isinstance(data, dict):
        return {convert_bytes_to_str(k, encoding): convert_bytes_to_str(v, encoding) for k, v in data.items()}
    if isinstance(data, tuple):
        return tuple(convert_bytes_to_str(one, encoding) for one in data)
    return data
