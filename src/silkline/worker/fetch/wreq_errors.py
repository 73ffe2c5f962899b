"""What wreq's exceptions mean, in our words. Their texts are for its makers; none of them leaves this file."""

from __future__ import annotations

import re

from wreq import exceptions

from silkline.core.errors import FetchError, FetchTimeout, HostUnreachable, ResponseTooLarge
from silkline.worker.fetch.guard import Target
from silkline.worker.fetch.watch import Watch

ERRORS: tuple[type[Exception], ...] = (
    *(getattr(exceptions, name) for name in exceptions.__all__),
    RuntimeError,  # wreq raises it for headers it cannot send, and when its runtime has ended
)

# A URL and the words of a server stand in wreq's texts too. They must not have a say in what went wrong.
_THEIRS = re.compile(r'uri: [^\s]+,|b"(?:[^"\\]|\\.)*"')
_MESSAGE = re.compile(r'(?:message|error): "([^"]+)"')
_REASONS = {  # what it says → what we say
    "TimedOut": "no answer in time",
    "Parse(Version": "what it sends is not HTTP",
    "Parse(Status": "its status line makes no sense",
    "ContentLengthInvalid": "its Content-Length makes no sense",
    "TransferEncoding": "its Transfer-Encoding makes no sense",
    "Parse(Header": "its headers make no sense",
    "UnexpectedMessage": "it sends more than was asked for",
    ", Library)": "its HTTP/2 makes no sense, or its headers are too large",
}
_CUT_OFF = (
    "UnexpectedEof",
    "IncompleteBody",
    "IncompleteMessage",
    "ConnectionReset",
    "BrokenPipe",
    "ConnectionAborted",
    ", Remote)",  # HTTP/2: the server ended the stream, or all of them
)
_TLS = ("tls", "ssl", "certificate", "handshake")


def explain(error: Exception, target: Target, watch: Watch) -> FetchError:
    """The `FetchError` that *error* is."""
    text = _THEIRS.sub("", str(error))
    where = f"{target.host}:{target.port}"
    if isinstance(error, exceptions.BuilderError | RuntimeError):
        return FetchError(f"the request cannot be sent: {_reason(text)}", "bad_request")
    if isinstance(error, exceptions.ConnectionError | exceptions.ProxyConnectionError | exceptions.TlsError):
        return _no_connection(error, text, where)
    if isinstance(error, exceptions.ConnectionResetError) or any(word in text for word in _CUT_OFF):
        return HostUnreachable(f"{where} cut the connection {_progress(watch)}", "reset")
    if "TimedOut" in text:
        return FetchTimeout(f"{where} did not answer in time")
    if "TooLarge" in text:
        return ResponseTooLarge(f"the headers of {where} are over the cap")
    return FetchError(f"{where} does not keep to HTTP: {_reason(text)}", "protocol")


def _no_connection(error: Exception, text: str, where: str) -> FetchError:
    if isinstance(error, exceptions.ProxyConnectionError):
        return HostUnreachable(f"no connection to {where} through the proxy: {_reason(text)}")
    if isinstance(error, exceptions.TlsError) or any(word in text.lower() for word in _TLS):
        return HostUnreachable(f"no secure connection to {where}: {_tls_reason(text)}", "tls")
    return HostUnreachable(f"no connection to {where}: {_reason(text)}")


def _tls_reason(text: str) -> str:
    found = re.search(
        r"CERTIFICATE_VERIFY_FAILED[^\]\"]*|certificate verify failed[^\]\"]*|[A-Z]+(?:_[A-Z0-9]+){1,6}", text
    )
    return found.group(0).strip(" :\\}])") if found else "the handshake failed"


def _reason(text: str) -> str:
    if found := _MESSAGE.search(text):
        return found.group(1)
    return next((words for mark, words in _REASONS.items() if mark in text), "it cannot be read")


def _progress(watch: Watch) -> str:
    return f"after {watch.got} bytes of the body" if watch.got else "before the body"
