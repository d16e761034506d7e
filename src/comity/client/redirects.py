"""Redirects: where an answer leads, and what goes along.

Each hop is a call of its own: it is paced by its own host's limiter, and the slot of the hop before is free by then.
What is sent follows RFC 9110 section 15.4:

    301, 302    POST becomes GET without a body, any other method stays
    303         all become GET without a body, but HEAD stays
    307, 308    method and body stay

Secrets stay with the origin (scheme, host and port) that they were meant for: the first hop to another one drops
Authorization, Cookie and every other header whose name speaks of a secret, for good, even if a later one leads back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from comity import redact
from comity.client import address
from comity.client.address import Address
from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response
from comity.engine.clock import Clock
from comity.engine.moments import seconds_text
from comity.errors import InvalidRequest, RedirectRefused, RequestError
from comity.policy.units import NS, flag, integer

MAX_REDIRECTS = 10

_LEADING = frozenset({301, 302, 303, 307, 308})
_OF_A_BODY = frozenset({
    "content-digest", "content-disposition", "content-encoding", "content-language", "content-location", "content-type", "digest",
    "idempotency-key", "last-modified", "repr-digest",
})  # fmt: skip
_OF_AN_ORIGIN = frozenset({"host", "origin", "referer"})

# RFC 3986, appendix B.
_REFERENCE = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirects:
    """How far answers are followed.

    Args:
        follow: whether they are at all.
        most: hops after the first request.

    Raises:
        OptionsError: `follow` is no truth value, or `most` no whole number of at least 0.
    """

    follow: bool = False
    most: int = MAX_REDIRECTS

    def __post_init__(self) -> None:
        flag(self.follow, "follow_redirects")
        integer(self.most, "max_redirects", 0)

    def but(self, follow: bool | None, most: int | None) -> Redirects:
        """Return the same with what one call says of it."""
        if follow is None and most is None:
            return self
        return Redirects(follow=self.follow if follow is None else follow, most=self.most if most is None else most)

    def lead_on(self, response: Response | None) -> bool:
        """Return whether an answer is to be followed."""
        return self.follow and response is not None and leads_on(response)


Hop = Callable[[Request, bool], Awaitable[Response]]
"""Makes one call; the flag says whether all hops so far stayed at the origin of the first request."""


async def follow(
    response: Response,
    rules: Redirects,
    hop: Hop,
    clock: Clock,
    *,
    longest: float | None,
    deadline: int | None,
    cookies: Callable[[Address], str] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Response:
    """Follow an answer to the one at the end of its redirects, whose `history` has those before.

    Args:
        response: the first answer; it leads on.
        rules: how far.
        hop: makes the calls.
        clock: on which `deadline` is.
        longest: seconds that an answer's Retry-After may ask to wait before the next hop; None for any.
        deadline: ns, of all hops together.
        cookies: what a jar would send to an address: with other cookies, the same URL is no circle. None when there is no jar.
        sleep: waits so many seconds.

    Raises:
        RedirectRefused: it cannot be followed to its end.
        RequestError: a hop failed; its `history` has the answers before.
    """
    trail = Trail(response.request, rules.most, cookies)
    try:
        while leads_on(response):
            request = trail.next(response)
            wait = response.retry_after or 0.0
            left = None if deadline is None else (deadline - clock.now()) / NS
            if wait and any(bound is not None and wait > bound for bound in (longest, left)):
                raise refused(response, f"it wants that to wait for {seconds_text(wait)} s, longer than this call may")
            if wait:
                await sleep(wait)
            response = await hop(request, trail.at_home)
    except RequestError as error:
        error.history = tuple(each.masked() for each in trail.history)
        raise
    response.history = tuple(trail.history)
    return response


class Trail:
    """The way of one request over its redirects.

    Args:
        request: the first.
        most: how many may follow.
        cookies: see `follow`.

    Attributes:
        history: the answers that were followed.
        at_home: whether all hops so far stayed at the origin of the first request.
    """

    def __init__(self, request: Request, most: int, cookies: Callable[[Address], str] | None = None) -> None:
        self.history: list[Response] = []
        self.at_home = True
        self._most, self._cookies = most, cookies
        self._seen: set[tuple[str, str, str]] = set()
        if cookies is None:  # else nobody knows any more what went along with it
            self._note(request)

    def next(self, response: Response) -> Request:
        """Return what is to be sent next.

        Raises:
            RedirectRefused: the answer may not be followed; the message says why.
        """
        request = response.request
        target = _target(response)
        if request.address.origin.scheme == "https" and target.origin.scheme == "http":
            raise refused(response, "it leads from https to http")
        if len(self.history) >= self._most:
            raise refused(response, f"max_redirects={self._most} are used up")
        onward = _onward(request, response.status_code, target)
        if not self._note(onward):
            raise refused(response, "it leads in a circle")
        self.history.append(response)
        self.at_home = self.at_home and target.origin == request.address.origin
        return onward

    def _note(self, request: Request) -> bool:
        key = (request.method, request.url, self._cookies(request.address) if self._cookies else "")
        new = key not in self._seen
        self._seen.add(key)
        return new


def leads_on(response: Response) -> bool:
    """Return whether an answer is a redirect that says where to."""
    return response.status_code in _LEADING and "location" in response.headers


def refused(response: Response, why: str) -> RedirectRefused:
    """Return the error for an answer that is not followed, and why."""
    where = redact.url(response.headers.get_list("location")[0][:300])
    return RedirectRefused(
        f"{response.line}; it is not followed to {where!r}: {why}",
        response=response.masked(),
        retry_after=response.retry_after,
        request=response.request,
        attempts=response.attempts,
    )


def resolve(base: Address, reference: str) -> str:
    """Return the URL that a reference means at `base` (RFC 3986 section 5.2), nothing else of it changed; no fragment.

    Example:
        >>> resolve(address.parse("https://api.example/a/b?x=1"), "../c?k=a%40b%2Fc%3D#top")
        'https://api.example/c?k=a%40b%2Fc%3D'
    """
    found = _REFERENCE.fullmatch(reference)
    assert found is not None  # the expression fits any text
    scheme, authority, path, query = found[1], found[2], found[3], found[4] or ""
    if scheme is not None:
        if authority is None:
            raise InvalidRequest("it names no host")
        return f"{scheme}://{authority}{_without_dots(path)}{query}"
    if authority is not None:
        return f"{base.origin.scheme}://{authority}{_without_dots(path)}{query}"
    here, mark, asked = base.target.partition("?")
    if not path:
        return f"{base.origin.text}{here}{query or mark + asked}"
    if not path.startswith("/"):
        path = f"{here.rpartition('/')[0]}/{path}"
    return f"{base.origin.text}{_without_dots(path)}{query}"


def _target(response: Response) -> Address:
    """Return where an answer leads. User information in it is dropped: a server cannot hand out credentials."""
    locations = set(response.headers.get_list("location"))
    if len(locations) > 1:
        raise refused(response, "it names several places")
    try:
        target = address.parse(resolve(response.request.address, locations.pop().strip(" \t")))
    except InvalidRequest as error:
        raise refused(response, str(error)) from None
    return replace(target, userinfo=b"") if target.userinfo else target


def _onward(request: Request, status: int, target: Address) -> Request:
    method, content = request.method, request.content
    pairs = request.headers.pairs
    if method != "HEAD" and ((status in {301, 302} and method == "POST") or status == 303):
        changed = method != "GET"
        method, content = "GET", None
        pairs = tuple(pair for pair in pairs if pair[0].lower() not in _OF_A_BODY)
        idempotent = None if changed else request.idempotent
    else:
        idempotent = request.idempotent
    if target.origin != request.address.origin:
        pairs = tuple(pair for pair in pairs if pair[0].lower() not in _OF_AN_ORIGIN and not redact.is_secret(pair[0]))
    headers = request.headers if pairs == request.headers.pairs else Headers(pairs)
    return request.altered(method=method, address=target, content=content, headers=headers, idempotent=idempotent)


def _without_dots(path: str) -> str:
    """Remove dot segments (RFC 3986 section 5.2.4); a path without them stays as it is."""
    segments = path.split("/")
    if "." not in segments and ".." not in segments:
        return path
    kept: list[str] = []
    for segment in segments[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)
