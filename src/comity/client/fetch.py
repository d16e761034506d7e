"""Fetch: a client as one function, for a program that asks the web by `fetch(url)` and is to become polite without a change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, Unpack

from comity.client.address import Url
from comity.client.async_client import AsyncClient
from comity.client.options import RequestOptions
from comity.client.response import Response
from comity.engine.stats import Stats

P = ParamSpec("P")


class Fetch:
    """What `paced_fetch` returns: it is called like the web's `fetch`, with the options of `AsyncClient.request`.

    Args:
        api: the client behind it.
    """

    def __init__(self, api: AsyncClient) -> None:
        self._api = api

    async def __call__(self, url: Url, *, method: str = "GET", **options: Unpack[RequestOptions]) -> Response:
        """Fetch a URL; the answer is returned whatever its status.

        Args:
            url: absolute, or under the client's `base_url`.
            method: any but CONNECT.
            options: `headers`, `json`, `content`, `params` and all others of `AsyncClient.request`.

        Raises:
            RateLimited, HostBlocked: the host wants no request before `until`.
            RequestError: no answer came.
        """
        given: Mapping[str, Any] = options
        answer: Response = await self._api.request(method, url, **given)
        return answer

    def stats(self) -> Stats:
        """Return how many requests wait and run, and the state of every host."""
        return self._api.stats()

    async def aclose(self) -> None:
        """Refuse what waits or comes, let what is on the wire finish, then close the connections."""
        await self._api.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _taking(
    _init: Callable[Concatenate[AsyncClient, P], None],
) -> Callable[[Callable[..., Fetch]], Callable[P, Fetch]]:
    """Give a function the arguments of AsyncClient's for type checkers."""
    return lambda function: function


@_taking(AsyncClient.__init__)
def paced_fetch(*args: Any, **options: Any) -> Fetch:
    """Return a function with the call shape of `fetch` that keeps to the limits of each host.

    Args:
        args: the `base_url`, if there is to be one.
        options: those of `AsyncClient`: `hosts`, `on_event`, `policy`, `rate` and so on; `raise_for` is "never" unless given.

    Raises:
        OptionsError: a value cannot be used, or there is no such option; the message names the nearest.

    Example:
        fetch = paced_fetch(hosts={"deezer.com": {"rate": "50/5s"}})
        answer = await fetch("https://api.deezer.com/album/302127")
    """
    return Fetch(AsyncClient(*args, **{"raise_for": "never", **options}))
