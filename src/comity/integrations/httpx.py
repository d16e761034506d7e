"""comity.httpx: transports that make a program built on httpx polite, an SDK among them.

Example:
    async with httpx.AsyncClient(transport=comity.httpx.AsyncTransport(rate="50/5s")) as client:
        answer = await client.get("https://api.example.com/users")
        print(answer.extensions["comity"].attempts)
"""

from __future__ import annotations

try:
    import httpx
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise
    raise ModuleNotFoundError("comity.httpx needs httpx: pip install 'comity[httpx]'", name="httpx") from error

from comity.integrations.bodies import AsyncBody, BlockingBody
from comity.integrations.family import Family
from comity.integrations.pacing import AsyncPacing, Pacing

__all__ = ["AsyncTransport", "Transport"]

_FAMILY = Family(httpx)


class _AsyncBody(AsyncBody, httpx.AsyncByteStream):
    """An AsyncBody that httpx takes for one of its streams."""


class _BlockingBody(BlockingBody, httpx.SyncByteStream):
    """A BlockingBody that httpx takes for one of its streams."""


class AsyncTransport(AsyncPacing[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport):
    """A transport for `httpx.AsyncClient`, on asyncio, under comity's limits and retries.

    Every request waits until the limits of its host allow it, is sent through another transport, and is sent again where
    that is safe and useful. The slot of an answer is held until its body was read or closed. Redirects, auth flows, cookies
    and the limits of time per phase stay the client's; each request that they make is a call of its own here.

    A body of known length up to 16 MB is read first, so that it can be sent again; any other stream is sent once, unless
    nothing of it left. The answer is given out whatever its status; `extensions["comity"].attempts` tells every wire attempt,
    once the body was read. If it asks for another try that was made here already, it carries `x-should-retry: false`, which
    the SDKs made by Stainless (OpenAI, Anthropic and others) obey.

    A request may say more: `extensions={"comity": {"priority": 0, "cost": {"tokens": 900}, "idempotent": True, "deadline": "1min"}}`.

    Args:
        transport: what sends; it is closed with this one. An `httpx.AsyncHTTPTransport` without a bound on connections by
            default; options such as `verify` and `http2` are for the one that you give. Retries of its own must be off.
        policy: the rules as one value; keywords override its parts.
        hosts: other rules for some hosts or groups of requests, as for `comity.AsyncClient`.
        max_connections: requests in flight over all hosts; None for no bound.
        on_event: called with every `comity.Event`.
        clock: what time it is; for tests.
        options: the options of `comity.Policy` but `hedge`. `timeout` adds to the limits of the client: the shorter holds, and
            a `comity.Timeout()` left at its defaults adds none. In threads `attempt` and `deadline` are looked at between reads.

    Raises:
        OptionsError: a value cannot be used, or there is no such option; the message names the nearest.

    What a request raises is httpx's; its `__cause__` is the error of comity, with `.attempts`. A turn that does not come (the
    host is blocked, the queue is full, a deadline) is an `httpx.PoolTimeout`, a closed transport a RuntimeError. A
    `comity.StackedRetries` warning says that the client retries, too.
    """

    _family = _FAMILY
    _body = _AsyncBody


class Transport(Pacing[httpx.BaseTransport], httpx.BaseTransport):
    """A transport for `httpx.Client`, for any number of threads; as `AsyncTransport` otherwise.

    Args:
        transport: what sends; an `httpx.HTTPTransport` without a bound on connections by default.
        options: all others of `AsyncTransport`.
    """

    _family = _FAMILY
    _body = _BlockingBody
