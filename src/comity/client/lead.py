"""Lead: where an answer says to go on: the next page of a list, or the status of work that it stands for.

Only the origin that was asked first is asked again: whatever the caller sends along (headers, credentials) is meant for it.
"""

from __future__ import annotations

from urllib.parse import quote

from msgspec.structs import replace

from comity import redact
from comity.client import address
from comity.client.address import Address
from comity.client.redirects import resolve
from comity.client.request import Request
from comity.client.response import Response
from comity.errors import BadResponse, InvalidRequest


def lead(response: Response, target: str, first: Request, what: str) -> Address:
    """Return the place that an answer names, with the user information of the first request.

    Args:
        response: the answer.
        target: a URL, perhaps relative to that of the answer.
        first: the first request.
        what: what stands there, for the message: "the next page".

    Raises:
        BadResponse: it cannot be asked for, or is at another origin than the first request.
    """
    home = first.address
    try:
        found = address.parse(resolve(response.request.address, target.strip()))
    except InvalidRequest as error:
        raise misled(response, target, what, f"which cannot be asked for: {error}") from None
    if found.origin != home.origin:
        raise misled(response, target, what, f"which is not at {home.origin}")
    return replace(found, userinfo=home.userinfo)


def first_of(response: Response) -> Request:
    """Return the request that a call began with, before any redirect."""
    return response.history[0].request if response.history else response.request


def whole(place: Address) -> str:
    """Return a place as a URL, with its user information."""
    if not place.userinfo:
        return place.url
    return f"{place.origin.scheme}://{quote(place.userinfo, safe=':')}@{place.origin.authority}{place.target}"


def misled(response: Response, target: str, what: str, why: str) -> BadResponse:
    """Return the error of an answer that names a place where nothing can be asked."""
    return response.bad(f"{response.line}; it names {what} {redact.url(target[:300])!r}, {why}")
