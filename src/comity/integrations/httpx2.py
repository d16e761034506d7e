"""comity.httpx2: transports that make a program built on httpx2 polite, an SDK among them.

Example:
    async with httpx2.AsyncClient(transport=comity.httpx2.AsyncTransport(rate="50/5s")) as client:
        answer = await client.get("https://api.example.com/users")
        print(answer.extensions["comity"].attempts)
"""

from __future__ import annotations

try:
    import httpx2
except ModuleNotFoundError as error:
    if error.name != "httpx2":
        raise
    raise ModuleNotFoundError("comity.httpx2 needs httpx2: pip install 'comity[httpx2]'", name="httpx2") from error

from comity.integrations.bodies import AsyncBody, BlockingBody
from comity.integrations.family import Family
from comity.integrations.pacing import AsyncPacing, Pacing

__all__ = ["AsyncTransport", "Transport"]

_FAMILY = Family(httpx2)


class _AsyncBody(AsyncBody, httpx2.AsyncByteStream):
    """An AsyncBody that httpx2 takes for one of its streams."""


class _BlockingBody(BlockingBody, httpx2.SyncByteStream):
    """A BlockingBody that httpx2 takes for one of its streams."""


class AsyncTransport(AsyncPacing[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport):
    """A transport for `httpx2.AsyncClient`; `comity.httpx.AsyncTransport` has the arguments and the rules."""

    _family = _FAMILY
    _body = _AsyncBody


class Transport(Pacing[httpx2.BaseTransport], httpx2.BaseTransport):
    """A transport for `httpx2.Client`; see `comity.httpx.Transport`."""

    _family = _FAMILY
    _body = _BlockingBody
