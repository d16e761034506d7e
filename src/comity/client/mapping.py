"""Mapping: many requests through one client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from comity.client import address
from comity.client.address import Url
from comity.client.response import Response
from comity.client.verbs import Ask
from comity.engine.mapping import each_result
from comity.errors import ClientClosed, InvalidRequest, OptionsError, RequestError
from comity.policy.naming import check_choice, type_of
from comity.policy.units import flag

MapErrors = Literal["raise", "return"]
"""What becomes of a request that fails: its error is raised in its place, or is a value among the answers."""

Item = Url | tuple[str, Url] | Mapping[str, Any]
"""A URL, a (method, url) pair, or a mapping with `url`, perhaps `method`, and the options of `request`."""

Each = Callable[..., AsyncGenerator[Any, None]]
"""What `each_result` is: the results of a coroutine function for many items."""


def answers(
    ask: Ask,
    requests: Iterable[Item] | AsyncIterable[Item],
    options: Mapping[str, Any],
    *,
    ahead: int,
    ordered: bool,
    errors: MapErrors,
    each: Each = each_result,
) -> AsyncGenerator[Response | RequestError, None]:
    """Yield the answer of every request.

    Args:
        ask: sends one: method, URL, options.
        requests: sync or async.
        options: of every request; an item's own win.
        ahead: how many requests may be in hand: waiting, under way, or answered and not taken.
        ordered: in the order of the requests, else as the answers come.
        errors: "raise" or "return".
        each: calls a function for every request, many at a time.

    Raises:
        OptionsError: `requests`, `ordered` or `errors` cannot be used.
    """
    check_choice(errors, "errors", get_args(MapErrors))
    flag(ordered, "ordered")
    if isinstance(requests, (str, bytes, Mapping)) or not isinstance(requests, (Iterable, AsyncIterable)):
        raise OptionsError("requests", type(requests).__name__, "an iterable of URLs, (method, url) pairs or mappings")

    async def send(item: Item) -> Response | RequestError:
        try:
            answer: Response = await _sent(ask, item, options)
        except ClientClosed:  # no failure of this request: none that follows could be sent
            raise
        except RequestError as error:
            if error.request is None:
                error.request = item
            if errors == "raise":
                raise
            return error
        return answer

    return each(send, requests, ahead, ordered=ordered)


async def _sent(ask: Ask, item: Item, options: Mapping[str, Any]) -> Response:
    method, url, own = _taken_apart(item)
    try:
        answer: Response = await ask(method, url, {**options, **own})
    except OptionsError as error:
        if not own:  # then it is an option of all of them
            raise
        raise InvalidRequest(str(error), request=item) from None
    return answer


def _taken_apart(item: object) -> tuple[str, Url, Mapping[str, Any]]:
    if address.is_url(item):
        return "GET", item, {}
    if isinstance(item, Mapping):
        own = dict(item)
        if "url" not in own:
            raise InvalidRequest("a request of map has no url; a mapping needs one")
        return own.pop("method", "GET"), own.pop("url"), own
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return item[0], item[1], {}
    raise InvalidRequest(
        f"a request of map is {type_of(item)}; a URL, a (method, url) pair or a mapping with url is needed"
    )
