"""Auth: the header fields that say who asks. They are made when the request's turn has come, so that a token is fresh.

They go to the origin (scheme, host and port) that the caller named and never along with a redirect to another one.
While a token is fetched the request holds no slot and no part of a rate: its turn is given back and it queues again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from inspect import isawaitable
from pathlib import PurePath
from types import TracebackType

from msgspec.structs import replace

from comity import redact
from comity.client.basic import basic
from comity.client.headers import Given, HeaderInput, checked, merged
from comity.client.request import Request
from comity.client.response import Response
from comity.engine.call import Aside, Exchange, Settled
from comity.engine.clock import Clock
from comity.engine.moments import seconds_text
from comity.errors import AuthFailed, InvalidRequest, OptionsError, RequestError, TimedOut
from comity.policy.attempt import joined

Sign = Callable[[Request], "HeaderInput | Awaitable[HeaderInput]"]
"""A function that returns the headers for a request, at once or as a coroutine."""

PATIENCE = 30.0
"""Seconds that a function may take."""

_FORMS = "(user, password), comity.Bearer(token), comity.TokenSource(fetch) or a function of the request"


class Auth(ABC):
    """Whatever can be given as `auth`, in one form."""

    @abstractmethod
    async def headers(self, request: Request) -> Given:
        """Return the fields for a request whose turn has come; quick, for it holds a slot meanwhile."""


class Renewing(Auth):
    """Auth that has to be fetched, and fetched again."""

    @abstractmethod
    def stale(self, clock: Clock) -> bool:
        """Return whether that is due before `headers` can be asked."""

    @abstractmethod
    async def renew(self, clock: Clock, refused: Given) -> str:
        """Fetch it, because it is stale or a server has `refused` these fields; return why that failed, "" if it did not."""

    async def renew_within(self, left: float | None, clock: Clock, refused: Given) -> str:
        """Fetch it within `left` seconds, or raise TimeoutError."""
        async with asyncio.timeout(left):
            return await self.renew(clock, refused)


class Bearer(Auth):
    """A token that does not change (RFC 6750).

    Args:
        token: as the server gave it out.

    Raises:
        OptionsError: it is no text, is empty, or holds what no header can carry.

    Example:
        >>> Bearer("secret")
        Bearer('***')
    """

    def __init__(self, token: str) -> None:
        self._fields = (("Authorization", bearer(token, "token")),)

    async def headers(self, request: Request) -> Given:  # noqa: ARG002 - the same for all
        """Return the Authorization field."""
        return self._fields

    def __repr__(self) -> str:
        return f"Bearer({redact.MASK!r})"


class _Basic(Auth):
    """User and password (RFC 7617)."""

    def __init__(self, user: str, password: str) -> None:
        if ":" in user or not (user + password).isprintable():
            raise OptionsError("auth", redact.MASK, "a user without colon, and no control characters")
        self._fields = (("Authorization", basic(f"{user}:{password}".encode())),)

    async def headers(self, request: Request) -> Given:  # noqa: ARG002 - the same for all
        return self._fields


class _Computed(Auth):
    """A caller's function."""

    def __init__(self, sign: Sign) -> None:
        self._sign = sign

    async def headers(self, request: Request) -> Given:
        try:
            given = self._sign(request)
            if isawaitable(given):
                async with asyncio.timeout(PATIENCE):
                    given = await given
            return checked(given)
        except InvalidRequest:
            raise
        except Exception as error:  # noqa: BLE001 - a caller's function may raise anything
            raise AuthFailed(f"the auth function failed ({told(error)}); nothing was sent", request=request) from None


class Signer:
    """The auth of one call.

    Args:
        auth: whose.
        request: what is to be sent.
        clock: of the client.
        deadline: ns, monotonic, of the call; None for none.
        limit: the same in seconds from its beginning, for people.
    """

    __slots__ = ("_auth", "_clock", "_deadline", "_fields", "_limit", "_request", "_source")

    def __init__(self, auth: Auth, request: Request, clock: Clock, deadline: int | None, limit: float | None) -> None:
        self._auth, self._request, self._clock = auth, request, clock
        self._deadline, self._limit = deadline, limit
        self._source = auth if isinstance(auth, Renewing) else None
        self._fields: Given = ()

    async def signed(self) -> Request:
        """Return the request with its auth fields, now that it is sent."""
        request = self._request
        self._fields = await self._auth.headers(request)
        return request.altered(headers=merged(request.headers, self._fields))

    def needs(self) -> Aside | None:
        """Return what has to be waited for before the request can be sent."""
        source = self._source
        return Aside(partial(self._fetch, source)) if source is not None and source.stale(self._clock) else None

    async def run(self, call: Callable[[], Awaitable[Settled[Response]]]) -> Settled[Response]:
        """Make a call, and once more with a new token when the first is refused with 401.

        Raises:
            AuthFailed: no token could be had.
            TimedOut: not within the deadline.
        """
        source = self._source
        if source is None:
            return await call()
        if source.stale(self._clock):
            await self._fetch(source)
        settled = await call()
        if settled.outcome.status != 401 or settled.error is not None:
            return settled
        before = (*settled.attempts[:-1], replace(settled.attempts[-1], decision="retry"))
        try:
            await self._fetch(source, refused=self._fields)
            settled = await call()
        except RequestError as error:
            error.attempts = joined(before, error.attempts)
            raise
        settled.attempts = joined(before, settled.attempts)
        return settled

    async def _fetch(self, source: Renewing, refused: Given = ()) -> None:
        left = None if self._deadline is None else max(0, self._deadline - self._clock.now()) / 1e9
        try:
            failure = await source.renew_within(left, self._clock, refused)
        except TimeoutError:
            limit = self._limit or 0.0
            passed = f"the deadline of {seconds_text(limit)} s passed while a token was fetched"
            text = f"{self._request.line}: {passed}; nothing was sent"
            raise TimedOut(text, phase="deadline", seconds=limit, sent="no", request=self._request) from None
        if failure:
            text = f"{self._request.line}: no token could be had ({failure}); nothing was sent"
            raise AuthFailed(text, request=self._request)


def auth_of(given: object) -> Auth | None:
    """Return auth in one form; None is none.

    Raises:
        OptionsError: it is nothing of the kind; the message never shows it.
    """
    if given is None or isinstance(given, Auth):
        return given
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given):
        return _Basic(*given)
    if callable(given):
        return _Computed(given)
    hint = "for a token write comity.Bearer(token)" if isinstance(given, str) else ""
    raise OptionsError("auth", redact.MASK, _FORMS, hint)


def bearer(token: object, option: str) -> str:
    """Return the value of an Authorization field.

    Raises:
        OptionsError: it is no token; the message never shows it.
    """
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise OptionsError(option, redact.MASK, "a text of printable ASCII characters without blanks")
    return f"Bearer {token}"


def told(error: BaseException) -> str:
    """Return what a caller's function raised and where in it, in a line without secrets."""
    text = redact.text(str(error)[:200]).partition("\n")[0]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = next((trace for trace in _traces(error) if _root(trace) not in _OURS), None)
    if place is None:
        return said
    code = place.tb_frame.f_code
    return f"{said}, in {code.co_name} at {PurePath(code.co_filename).name}:{place.tb_lineno}"


_OURS = frozenset({"comity", "asyncio", "concurrent"})
"""Whose frames lie between a call and the function that the caller gave."""


def _traces(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _root(trace: TracebackType) -> str:
    name: str = trace.tb_frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def undressed(exchange: Exchange[Response], request: Request) -> None:
    """Let an exchange speak of the request as the caller gave it, without what was added at the send."""
    if exchange.value is not None:
        exchange.value.request = request
    if exchange.error is not None:
        exchange.error.request = request
        head = getattr(exchange.error, "response", None)
        if head is not None:
            head.request = request
