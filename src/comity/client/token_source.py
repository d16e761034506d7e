"""TokenSource: tokens that expire. One fetch at a time, whoever waits for it, in whatever loop or thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from comity import redact
from comity.client.auth import PATIENCE, Renewing, bearer, told
from comity.client.headers import Given
from comity.client.request import Request
from comity.engine.clock import Clock
from comity.engine.fork import restart_in_children
from comity.engine.moments import seconds_text
from comity.errors import OptionsError
from comity.policy.naming import type_of
from comity.policy.units import NS, Seconds, as_ns, duration, required, seconds

Fetch = Callable[[], "tuple[str, float | None] | Awaitable[tuple[str, float | None]]"]
"""Returns a token and the seconds that it lives, None if it does not expire; a function or a coroutine function."""

_PAUSE = NS
"""After a failed fetch the next begins so much later, ns; what is sent meanwhile fails with the same reason."""

_LEAST = NS
"""So long a token serves from when it came, ns, however short it is said to live: else each request would fetch one anew,
as fast as the login server answers. One that is refused with 401 meanwhile is fetched anew all the same."""

_CANCELLED = "cancelled"


class TokenSource(Renewing):
    """A token that is fetched when it is first needed, again shortly before it expires, and once when it is refused.

    All requests that wait for a token share one fetch, and a failed fetch fails them all. Waiting for it they hold no
    slot of their host. Several clients may share a source.

    Args:
        fetch: returns (token, seconds that it lives or None). A function that is no coroutine function runs in a thread,
            so it may block.
        early: seconds (or text) before the end of its life from when on a token is fetched anew; at most half its life.
            No token is fetched anew within a second, unless it is refused.
        timeout: seconds (or text) that a fetch may take; None for no limit.

    Raises:
        OptionsError: `fetch` is no function, or a time cannot be used.

    Example:
        async def fetch() -> tuple[str, float]:
            answer = (await login.post("/token", json={"grant_type": "client_credentials"})).data
            return answer["access_token"], answer["expires_in"]

        api = comity.AsyncClient("https://api.example", auth=comity.TokenSource(fetch))
    """

    def __init__(self, fetch: Fetch, *, early: Seconds = 30.0, timeout: Seconds | None = PATIENCE) -> None:
        if not callable(fetch):
            raise OptionsError("fetch", redact.MASK, "a function that returns (token, seconds that it lives)")
        self._call = fetch
        self._early = seconds(required(early, "early"))
        self._timeout = duration(timeout, "timeout", minimum=0.001)
        self._token: _Token | None = None
        self._failure, self._again = "", 0
        self.restart()
        restart_in_children(self)

    def restart(self) -> None:
        """Forget a fetch that is under way; in a child process nobody ends it."""
        self._lock = threading.Lock()
        self._flight: _Flight | None = None

    def stale(self, clock: Clock) -> bool:
        """Return whether a token has to be fetched first."""
        token = self._token
        return token is None or token.stale(clock.now())

    async def headers(self, request: Request) -> Given:  # noqa: ARG002 - one token for all
        """Return the Authorization field of the present token."""
        token = self._token
        assert token is not None  # `stale` was asked when the turn came
        return token.fields

    async def renew(self, clock: Clock, refused: Given) -> str:
        """Wait until there is another token; return why there is none, "" when there is.

        Args:
            clock: by which tokens expire.
            refused: the fields of one that is no good, however long it were to live; () when none was refused.
        """
        while True:
            with self._lock:
                token = self._token
                if token is not None and token.fields != refused and not token.stale(clock.now()):
                    return ""
                flight = self._flight
                if flight is None or flight.loop.is_closed():
                    if clock.now() < self._again:
                        return self._failure
                    flight = self._flight = _Flight(asyncio.get_running_loop())
                    flight.task = flight.loop.create_task(self._fly(flight, clock))
            # Shielded: who gives up does not end it for the others.
            failure = await asyncio.shield(asyncio.wrap_future(flight.done))
            if failure != _CANCELLED:
                return failure

    def __repr__(self) -> str:
        return f"<TokenSource, {'a' if self._token else 'no'} token>"

    async def _fly(self, flight: _Flight, clock: Clock) -> None:
        failure, began, token = _CANCELLED, clock.now(), self._token
        try:
            token = _Token.of(await self._fetched(), began, self._early, clock)
            failure = ""
        except asyncio.CancelledError as error:
            if flight.task is None or flight.task.cancelling():
                raise
            failure = told(error)  # the caller's function raised it: nobody cancelled the fetch
        except Exception as error:  # noqa: BLE001 - a caller's function may raise anything
            failure = told(error)
        finally:
            with self._lock:
                self._flight = None
                if not failure:
                    self._token = token
                elif failure != _CANCELLED:
                    self._failure, self._again = failure, clock.now() + _PAUSE
            flight.done.set_result(failure)

    async def _fetched(self) -> Any:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                given: Any = await (
                    self._call() if iscoroutinefunction(self._call) else asyncio.to_thread(self._called)
                )
                return await given if isawaitable(given) else given
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"fetch took longer than {seconds_text(self._timeout or 0.0)} s") from None

    def _called(self) -> Any:
        try:
            return self._call()
        except StopIteration as error:  # no future can carry it (PEP 479): who waits would wait for ever
            raise RuntimeError("fetch raised StopIteration") from error


@dataclass(frozen=True, slots=True)
class _Token:
    """One token: the fields that carry it, and from when on, ns, it is to be fetched anew."""

    fields: Given = field(repr=False)
    until: int | None

    @classmethod
    def of(cls, given: object, began: int, early: int, clock: Clock) -> _Token:
        """Read what a fetch returned just now; a token lives from when it was asked for, at `began`."""
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(f"fetch returned {type_of(given)}; it is to return (token, seconds that it lives)")
        text, lives = given
        life = as_ns(duration(lives, "lifetime"))
        fields = (("Authorization", bearer(text, "token")),)
        if life is None:
            return cls(fields, None)
        return cls(fields, max(began + life - min(early, life // 2), clock.now() + _LEAST))

    def stale(self, now: int) -> bool:
        """Return whether it is to be fetched anew."""
        return self.until is not None and now >= self.until


@dataclass(slots=True)
class _Flight:
    """One fetch under way."""

    loop: asyncio.AbstractEventLoop
    done: Future[str] = field(default_factory=Future)
    task: asyncio.Task[None] | None = None
