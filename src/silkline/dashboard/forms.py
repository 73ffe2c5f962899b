"""Forms, as browsers send them when there is no file in them. Nothing else is read, and not much of it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

Form = Mapping[str, str]
KIND = "application/x-www-form-urlencoded"
LARGEST, MOST_FIELDS = 64 * 1024, 30


async def read_form(request: Request) -> Form:
    """Of fields with the same name the last one counts."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != KIND:
        raise HTTPException(415, f"A form is sent as {KIND}.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST:
            raise HTTPException(413, "This form is too large.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError:  # of which UnicodeDecodeError is one
        raise HTTPException(400, "This form cannot be read.") from None
