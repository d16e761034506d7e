"""Series: what takes more than one request: many at a time, page after page, again and again until it is finished."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from typing import Any, Literal, Unpack, overload

from comity.client import mapping
from comity.client.mapping import Failed, Item, MapErrors
from comity.client.options import RequestOptions
from comity.client.response import Response
from comity.client.verbs import Verbs


class Series(Verbs):
    """What asks several times."""

    _ahead: int
    """How many requests `map` has in hand."""

    @overload
    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        ordered: bool = False,
        errors: Literal["raise"] = "raise",
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Response, None]: ...
    @overload
    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        ordered: bool = False,
        errors: Literal["return"],
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Response | Failed, None]: ...
    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        ordered: bool = False,
        errors: MapErrors = "raise",
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """Send many requests, as many at a time as the limits let, and yield their answers, in bounded memory.

        Leaving the loop cancels what is under way: at once, or with `contextlib.aclosing` before the next statement.

        Args:
            requests: sync or async; each is a URL, a (method, url) pair, or a mapping with `url`, perhaps `method`, and
                options of `request`. They are read ahead up to 8 for each slot of the widest `concurrency`.
            ordered: in the order of the requests; else as the answers come.
            errors: "raise" a failure in its place, which ends the loop, or "return" it as a value among the answers; its
                `.request` says whose it is.
            options: of `request`, for all of them; a request's own win.

        Raises:
            OptionsError: an option cannot be used.
            ClientClosed: the client was closed; whatever `errors` says.

        Example:
            async for answer in api.map((f"/users/{number}" for number in range(1_000_000)), errors="return"):
                print(answer)
        """
        return mapping.answers(self._ask, requests, options, ahead=self._ahead, ordered=ordered, errors=errors)
