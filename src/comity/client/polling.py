"""Polling: asking again and again until work elsewhere is finished, as often as its server wants.

    the body has `nextPollMs` (also within `data`)    that, times a random number in [0.8, 1.2)
    a Retry-After                                      that at least, up to 1.2 times as long
    both                                               the later
    neither                                            by the time that has passed (`comity.policy.polling`), spread alike
    less than 0.1 s                                    0.1 s, unless the caller says that less is right (`every`)

The spread keeps many clients that began together from asking together for ever. A Retry-After is the least wait by its
definition (RFC 9110 section 10.2.3), so it is spread to one side only.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from comity.client import media
from comity.client.address import Url
from comity.client.lead import first_of, lead, whole
from comity.client.options import RequestOptions
from comity.client.response import Response
from comity.client.verbs import Ask
from comity.engine.clock import Clock
from comity.engine.moments import seconds_text
from comity.errors import OptionsError, TimedOut
from comity.policy.polling import by_elapsed
from comity.policy.units import FOREVER, NS, Seconds, duration, plain_function, required, seconds

Done = Callable[[Response], bool]
"""Says whether an answer is the last one."""


class PollOptions(RequestOptions, total=False):
    """What `poll` may be told: the options of its requests, and of itself; `deadline` is for all of it."""

    done: Done | None
    every: Seconds | None


_LEAST = 0.1  # a server that says 0, or a rounded-down 1 ms, does not mean to be asked thousands of times a second


class Poll:
    """How one URL is polled.

    Args:
        done: says whether an answer is the last; None: it is not 202 and its body holds no `nextPollMs`.
        every: seconds between two requests where the server names no time; None: by the time that has passed.
        deadline: seconds for everything; None for no limit.
        clock: what time it is.
        draw: a random number in [0, 1).
        sleep: waits so many seconds.

    Raises:
        OptionsError: a value cannot be used.
    """

    def __init__(
        self,
        *,
        done: Done | None,
        every: Seconds | None,
        deadline: Seconds | None,
        clock: Clock,
        draw: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if done is not None:
            plain_function(done, "done")
        self._done = done
        self._every = None if every is None else required(every, "every", minimum=0.001)
        self._deadline = duration(deadline, "deadline", minimum=0.001)
        self._clock, self._draw, self._sleep = clock, draw, sleep

    async def until_done(self, ask: Ask, where: Url | Response, options: Mapping[str, Any]) -> Response:
        """Ask until an answer is the last one, and return it.

        Args:
            ask: sends one request.
            where: the URL of the status, or the answer that names it.
            options: of every request.

        Raises:
            BadResponse: an answer that was given names no status that can be asked for.
            TimedOut: the next request would come after the deadline; `phase` is "deadline".
        """
        began = self._clock.now()
        end = None if self._deadline is None else began + seconds(self._deadline)
        url = where
        if isinstance(where, Response):
            url = status_of(where)
            if where.retry_after is not None or next_poll(where) is not None:
                await self._pause(where, began, end)
        while True:
            left = {} if end is None else {"deadline": max(0.001, (end - self._clock.now()) / NS)}
            response: Response = await ask("GET", url, {**options, **left})
            if self._finished(response):
                return response
            await self._pause(response, began, end)

    async def _pause(self, response: Response, began: int, end: int | None) -> None:
        """Wait until the next look."""
        now = self._clock.now()
        wait = self.wait(response, (now - began) / NS)
        if end is not None and now + seconds(wait) >= end:
            raise self._too_late(response, wait)
        await self._sleep(wait)

    def wait(self, response: Response, elapsed: float) -> float:
        """Return the seconds until the next request.

        Args:
            response: the answer that is not the last.
            elapsed: seconds since the first request.
        """
        least = _LEAST if self._every is None else min(_LEAST, self._every)
        return max(least, self._named(response, elapsed))

    def _named(self, response: Response, elapsed: float) -> float:
        draw, told, asked = self._draw(), next_poll(response), response.retry_after
        if told is not None:
            return max(told * (0.8 + 0.4 * draw), asked or 0.0)
        if asked is not None:
            return asked * (1.0 + 0.2 * draw)
        step = self._every
        if step is None:
            step = by_elapsed(seconds(elapsed)) / NS
        return step * (0.8 + 0.4 * draw)

    def _finished(self, response: Response) -> bool:
        if self._done is None:
            return response.status_code != 202 and next_poll(response) is None
        value: object = self._done(response)
        if not isinstance(value, bool):
            raise OptionsError("done", value, "True or False", reason="the function returned it")
        return value

    def _too_late(self, response: Response, wait: float) -> TimedOut:
        limit = self._deadline or 0.0
        return TimedOut(
            f"{response.line}; the next look in {seconds_text(wait)} s would come after the deadline of "
            f"{seconds_text(limit)} s",
            phase="deadline",
            seconds=limit,
            sent="yes",
            request=response.request,
            attempts=response.attempts,
        )


def status_of(response: Response) -> str:
    """Return the URL of the status that an answer names in its Location (RFC 7240 section 4.1).

    Raises:
        BadResponse: it names none, or one that cannot be asked for with what was meant for its own origin.
    """
    target = response.headers.get("location")
    if target is None:
        raise response.bad(f"{response.line} and names no status: it has no Location")
    return whole(lead(response, target, first_of(response), "the status"))


def next_poll(response: Response) -> float | None:
    """Return the seconds that an answer's `nextPollMs` says, None when it says none or no plausible number."""
    if media.kind(response.headers.get("content-type")) != "json" or b"nextPollMs" not in response.content:
        return None
    body = response.json()
    inner = body.get("data") if isinstance(body, dict) else None
    for holder in (body, inner):
        value = holder.get("nextPollMs") if isinstance(holder, dict) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= FOREVER * 1000:
            return value / 1000
    return None
