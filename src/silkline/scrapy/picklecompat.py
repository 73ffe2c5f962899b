"""The functions of ``scrapy_redis.picklecompat``, without pickle: values are stored as Silkline stores meta.

`loads` also reads plain pickles that scrapy-redis has written. Neither function runs code of the data.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silkline.scrapy.convert.values import pack, unpack
from silkline.scrapy.migrate.pickles import loads as read_pickle

MARK = b"\xc1"
"""No pickle and no value of msgpack begins with this byte."""


def dumps(value: Any) -> bytes:
    """Return *value* as bytes. Raises `RequestError` if it has a part that cannot be stored."""
    return MARK + msgspec.msgpack.encode(pack(value, "value"))


def loads(data: bytes) -> Any:
    """Return the value of `dumps`, or of a pickle of plain data."""
    if data[:1] == MARK:
        return unpack(msgspec.msgpack.decode(data[1:]))
    return unpack(pack(read_pickle(data), "value"))
