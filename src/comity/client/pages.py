"""Pages: a list that an API hands out in pieces, each naming the next.

Only pages of the origin that was asked first are followed. A page that was there before would be the beginning of a circle,
and is an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from hashlib import blake2b
from typing import Any, TypeVar
from urllib.parse import unquote_plus

from comity.client import address
from comity.client.address import Url
from comity.client.lead import first_of, lead, misled, whole
from comity.client.links import target_of
from comity.client.request import Request
from comity.client.response import Response
from comity.client.verbs import Ask
from comity.errors import InvalidRequest, OptionsError
from comity.policy.json_path import MISSING, JsonPath
from comity.policy.naming import type_of
from comity.policy.units import integer, plain_function

T = TypeVar("T")

NextPage = str | Callable[[Response], "str | None"]
"""Where the next page is named: "link", "json:PATH", "cursor:PATH=PARAM", or a function that returns its URL or None."""

_WHAT = "the next page"
_FORM = '"link", "json:PATH", "cursor:PATH=PARAM" or a function of the answer'


def pages(
    ask: Ask,
    url: Url,
    options: Mapping[str, Any],
    *,
    next_page: NextPage,
    max_pages: int | None,
    show: Callable[[Response], T],
) -> AsyncGenerator[T, None]:
    """Yield the answer of a URL and of the pages after it; see `AsyncClient.paginate`.

    Args:
        ask: sends one request: method, URL, options.
        url: of the first page.
        options: of every request; `params` belong to the first, and to all with a cursor.
        next_page: where an answer names the next page.
        max_pages: at most so many; None for no bound.
        show: what is yielded of an answer.

    Raises:
        OptionsError: `next` or `max_pages` cannot be used.
    """
    finder = _finder(next_page)
    most = None if max_pages is None else integer(max_pages, "max_pages", 1)
    return _followed(ask, url, options, finder, most=most, show=show)


async def _followed(
    ask: Ask, url: Url, options: Mapping[str, Any], finder: _Finder, *, most: int | None, show: Callable[[Response], T]
) -> AsyncGenerator[T, None]:
    response: Response = await ask("GET", url, options)
    first = first_of(response)
    later = {name: value for name, value in options.items() if name != "params"}
    seen = {_mark(first.url)}
    count = 1
    while True:
        yield show(response)
        if not response.ok or count == most:
            return
        target = finder(response, first)
        if target is None:
            return
        page = lead(response, target, first, _WHAT)
        if _mark(page.url) in seen:
            raise misled(response, page.url, _WHAT, "which was there before")
        seen.add(_mark(page.url))
        response = await ask("GET", whole(page), later)
        count += 1


_Finder = Callable[[Response, Request], "str | None"]
"""Returns the next page's URL reference; gets the answer and the first request."""


def _finder(given: NextPage) -> _Finder:
    if not isinstance(given, str):
        try:
            plain_function(given, "next")
        except OptionsError:
            raise OptionsError("next", given, _FORM) from None
        return lambda response, _first: _text(response, given(response), "the function of next")
    kind, _, rest = given.partition(":")
    if given == "link":
        return lambda response, _first: target_of(response.headers.get_list("link"), "next")
    if kind == "json":
        path = JsonPath(rest, "next")
        return lambda response, _first: _text(response, path.find(response.json()), path.text)
    path_text, _, param = rest.partition("=")
    if kind == "cursor" and param:
        cursor = JsonPath(path_text, "next")
        return lambda response, first: _with_cursor(response, first, cursor, param)
    raise OptionsError("next", given, _FORM)


def _text(response: Response, value: object, where: str) -> str | None:
    """Return the URL that was found, None when nothing was."""
    if value is MISSING or value is None or value is False or value == "":
        return None
    if isinstance(value, str):
        return value
    hint = '; for a number or token say next="cursor:PATH=PARAM"' if type(value) is int else ""
    raise response.bad(f"{response.line}; {where} holds {type_of(value)} instead of the next page's URL{hint}")


def _with_cursor(response: Response, first: Request, path: JsonPath, param: str) -> str | None:
    """Return the first page's URL with the cursor in its query, all else byte for byte."""
    cursor = path.find(response.json())
    if isinstance(cursor, int) and not isinstance(cursor, bool):
        cursor = str(cursor)
    text = _text(response, cursor, path.text)
    if text is None:
        return None
    head, _, query = first.url.partition("?")
    kept = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) != param]
    try:
        return address.with_params(f"{head}?{'&'.join(kept)}" if kept else head, {param: text})
    except InvalidRequest as error:
        raise misled(response, first.url, _WHAT, f"with a cursor that cannot be sent: {error}") from None


def _mark(url: str) -> bytes:
    """Return what is kept of a page's URL: so little that a million pages need no memory to speak of."""
    return blake2b(url.encode(errors="surrogatepass"), digest_size=16).digest()
