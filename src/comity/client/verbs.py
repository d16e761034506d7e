"""Verbs: the methods by which a caller asks, each with the type of what it returns.

Without `into` that is a Response, with `into=list[User]` a list of User. Special forms, such as `User | None`, are
decoded as well, but Python has no way yet to say their static type, so it is Any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, Unpack, overload

from comity.client.address import Url
from comity.client.options import RequestOptions
from comity.client.response import Response

T = TypeVar("T")

Ask = Callable[[str, Url, Mapping[str, Any]], Coroutine[Any, Any, Any]]
"""Sends a request: method, URL, options; returns its answer, or the value of `into`."""


class Verbs(ABC):
    """What can be asked of a client."""

    @abstractmethod
    def _ask(self, method: str, url: Url, options: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """Send a request and return its answer, or the value of `into`."""

    @overload
    async def request(
        self, method: str, url: Url, *, into: None = None, **options: Unpack[RequestOptions]
    ) -> Response: ...
    @overload
    async def request(self, method: str, url: Url, *, into: type[T], **options: Unpack[RequestOptions]) -> T: ...
    @overload
    async def request(self, method: str, url: Url, *, into: object, **options: Unpack[RequestOptions]) -> Any: ...
    async def request(self, method: str, url: Url, **options: Any) -> Any:
        """Send a request and return its answer.

        Args:
            method: any method but CONNECT.
            url: absolute, or relative to `base_url`, text or a `URL` of yarl or httpx; it is sent byte for byte.
            into: the type that the answer's JSON body is decoded to and returned as: a dataclass, TypedDict, msgspec.Struct,
                a list or dict of such. An answer that is not 2xx is then always raised.
            options: params, headers, content, json, data, files: what to send, see `Request`.
                priority: 0 (first) to 9, 5 by default.  cost: in requests, or by budget: `{"tokens": 1200}`.
                idempotent: whether sending twice does no harm; by default the method says.
                idempotency_key: True makes a key, text is one; the request is then retried like an idempotent one.
                timeout, deadline, retry, raise_for: instead of the client's.
                accept: rules for what answers count as, instead of the client's; see `Accept`.
                expose_cookies: leave `set-cookie` readable in the answer.
                extensions: options for a transport of one's own; the default one refuses every name.
                auth: instead of the client's, over an Authorization header; None for none.
                follow_redirects, max_redirects: instead of the client's; the answers before stand in `history`.

        Raises:
            InvalidRequest, OptionsError: something cannot be sent or used; nothing was sent.
            QueueFull, QueueTimeout, ClientClosed, HostBlocked, AuthFailed: its turn did not come, or no token did.
            ConnectFailed, TimedOut, ConnectionLost, BadResponse: no whole, sound answer came, or its body is not `into`.
            StatusError: an answer that `raise_for` names.  RateLimited: the server asks for a longer wait than allowed.
            RedirectRefused: redirects are to be followed, and one leads to where it may not be.
        """
        return await self._ask(method, url, options)

    @overload
    async def get(self, url: Url, *, into: None = None, **options: Unpack[RequestOptions]) -> Response: ...
    @overload
    async def get(self, url: Url, *, into: type[T], **options: Unpack[RequestOptions]) -> T: ...
    @overload
    async def get(self, url: Url, *, into: object, **options: Unpack[RequestOptions]) -> Any: ...
    async def get(self, url: Url, **options: Any) -> Any:
        """Send a GET; see `request`."""
        return await self._ask("GET", url, options)

    @overload
    async def head(self, url: Url, *, into: None = None, **options: Unpack[RequestOptions]) -> Response: ...
    @overload
    async def head(self, url: Url, *, into: type[T], **options: Unpack[RequestOptions]) -> T: ...
    @overload
    async def head(self, url: Url, *, into: object, **options: Unpack[RequestOptions]) -> Any: ...
    async def head(self, url: Url, **options: Any) -> Any:
        """Send a HEAD; see `request`."""
        return await self._ask("HEAD", url, options)

    @overload
    async def options(self, url: Url, *, into: None = None, **options: Unpack[RequestOptions]) -> Response: ...
    @overload
    async def options(self, url: Url, *, into: type[T], **options: Unpack[RequestOptions]) -> T: ...
    @overload
    async def options(self, url: Url, *, into: object, **options: Unpack[RequestOptions]) -> Any: ...
    async def options(self, url: Url, **options: Any) -> Any:
        """Send an OPTIONS; see `request`."""
        return await self._ask("OPTIONS", url, options)

    @overload
    async def post(self, url: Url, *, into: None = None, **options: Unpack[RequestOptions]) -> Response: ...
    @overload
    async def post(self, url: Url, *, into: type[T], **options: Unpack[RequestOptions]) -> T: ...
    @overload
    async def post(self, url: Url, *, into: object, **options: Unpack[RequestOptions]) -> Any: ...
    async def post(self, url: Url, **options: Any) -> Any:
        """Send a POST; see `request`."""
        return await self._ask("POST", url, options)

    @overload
    async def put(self, url: Url, *, into: None = None, **options: Unpack[RequestOptions]) -> Response: ...
    @overload
    async def put(self, url: Url, *, into: type[T], **options: Unpack[RequestOptions]) -> T: ...
    @overload
    async def put(self, url: Url, *, into: object, **options: Unpack[RequestOptions]) -> Any: ...
    async def put(self, url: Url, **options: Any) -> Any:
        """Send a PUT; see `request`."""
        return await self._ask("PUT", url, options)

    @overload
    async def patch(self, url: Url, *, into: None = None, **options: Unpack[RequestOptions]) -> Response: ...
    @overload
    async def patch(self, url: Url, *, into: type[T], **options: Unpack[RequestOptions]) -> T: ...
    @overload
    async def patch(self, url: Url, *, into: object, **options: Unpack[RequestOptions]) -> Any: ...
    async def patch(self, url: Url, **options: Any) -> Any:
        """Send a PATCH; see `request`."""
        return await self._ask("PATCH", url, options)

    @overload
    async def delete(self, url: Url, *, into: None = None, **options: Unpack[RequestOptions]) -> Response: ...
    @overload
    async def delete(self, url: Url, *, into: type[T], **options: Unpack[RequestOptions]) -> T: ...
    @overload
    async def delete(self, url: Url, *, into: object, **options: Unpack[RequestOptions]) -> Any: ...
    async def delete(self, url: Url, **options: Any) -> Any:
        """Send a DELETE; see `request`."""
        return await self._ask("DELETE", url, options)
