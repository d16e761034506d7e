"""Paths that remember: each key has a limit, a line of workers, or a count of failures of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from comity.testing.upstream.answers import Answer, End, json
from comity.testing.upstream.exchange import Exchange
from comity.testing.upstream.faults import silence
from comity.testing.upstream.journal import Journal
from comity.testing.upstream.limits import SECOND, FixedWindow, SlidingWindow, Slots, TokenBucket, Verdict
from comity.testing.upstream.plain import hints

_S = TypeVar("_S")
_STYLES = ("draft", "x", "epoch", "old")


class KeyedPaths:
    """The paths that keep state, and that state.

    Args:
        journal: told of every arrival at a limited key.
        keep: how many keys are remembered; the oldest are forgotten first.
    """

    def __init__(self, journal: Journal, keep: int) -> None:
        self._journal = journal
        self._sliding: Memory[SlidingWindow] = Memory(keep)
        self._fixed: Memory[FixedWindow] = Memory(keep)
        self._buckets: Memory[TokenBucket] = Memory(keep)
        self._slots: Memory[Slots] = Memory(keep)
        self._failures: Memory[list[int]] = Memory(keep)

    def clear(self) -> None:
        """Forget every key: full limits, no failures yet."""
        for memory in (self._sliding, self._fixed, self._buckets, self._slots, self._failures):
            memory.clear()

    def flaky(self, exchange: Exchange) -> Answer:
        """`/flaky/{key}`: the first `?fail=1` requests of a key get `?code=503` (or reset, hang), the others 200."""
        params = exchange.params
        count = self._failures.at(state_key(exchange), lambda: [0])
        count[0] += 1
        if count[0] > params.whole("fail", 1):
            return json(200, {"key": exchange.key, "attempt": count[0]})
        code = params.get("code") or "503"
        if code in {"reset", "hang"}:
            return silence(End.RESET if code == "reset" else End.HANG)
        status = params.whole("code", 503, low=200, high=599)
        return json(status, {"key": exchange.key, "attempt": count[0], "status": status}, hints(exchange))

    def limited(self, exchange: Exchange) -> Answer:
        """`/limited/{key}`: at most `?n=50` accepted in any `?per=5` seconds, 429 with Retry-After over it."""
        n, per, verdict = self._slide(exchange)
        return self._judged(exchange, per, verdict, {"n": n})

    def window(self, exchange: Exchange) -> Answer:
        """`/window/{key}`: at most `?n=50` in each fixed window of `?per=5` seconds, from the first request on."""
        n, per = _numbers(exchange)
        state = self._fixed.at(state_key(exchange), lambda: FixedWindow(per, exchange.at), lambda old: old.per == per)
        return self._judged(exchange, per, state.admit(exchange.at, n), {"n": n})

    def bucket(self, exchange: Exchange) -> Answer:
        """`/bucket/{key}`: a bucket of `?burst=10` tokens, `?rate=10` new ones a second."""
        rate = exchange.params.rate("rate", "10")
        burst = exchange.params.whole("burst", 10, low=1)
        state = self._buckets.at(
            state_key(exchange),
            lambda: TokenBucket(rate, burst, exchange.at),
            lambda old: (old.rate, old.burst) == (rate, burst),
        )
        return self._judged(exchange, SECOND, state.admit(exchange.at), {"burst": burst})

    def headers(self, exchange: Exchange) -> Answer:
        """`/headers/{key}`: as limited, and every answer announces the quota in `?style=draft|x|epoch|old`."""
        n, per, verdict = self._slide(exchange)
        style = exchange.params.choice("style", _STYLES)
        return self._judged(exchange, per, verdict, {"n": n}, announced(style, n, per, verdict))

    def slots(self, exchange: Exchange) -> Answer:
        """`/slots/{key}`: `?c=4` workers that need `?ms=50` each; the others wait, over `?queue=` of them get 503."""
        params = exchange.params
        service = params.time("ms", "50", "ms")
        queue = None if params.get("queue") is None else params.whole("queue", 0)
        workers = params.whole("c", 4, low=1, high=100_000)
        state = self._slots.at(state_key(exchange), Slots)
        done = state.enter(exchange.at, workers=workers, service=service, queue=queue)
        if done is None:
            return json(503, {"key": exchange.key, "error": "queue full"}, hints(exchange))
        served = json(200, {"key": exchange.key})
        served.delay = done - exchange.at
        return served

    def _slide(self, exchange: Exchange) -> tuple[int, int, Verdict]:
        n, per = _numbers(exchange)
        state = self._sliding.at(state_key(exchange), lambda: SlidingWindow(per), lambda old: old.per == per)
        return n, per, state.admit(exchange.at, n)

    def _judged(
        self,
        exchange: Exchange,
        per: int,
        verdict: Verdict,
        numbers: dict[str, int],
        fields: list[tuple[str, str]] | None = None,
    ) -> Answer:
        self._journal.judged(state_key(exchange), per, exchange.at, accepted=verdict.accepted)
        shown = {"key": exchange.key, "remaining": verdict.remaining, **numbers}
        if verdict.accepted:
            return json(200, shown, fields or [])
        hint: list[tuple[str, str]] = []
        if exchange.params.choice("hint", ("yes", "no")) == "yes":
            hint = hints(exchange) or [("Retry-After", str(whole_seconds(verdict.wait)))]
        return json(429, {**shown, "error": "over the limit"}, [*hint, *(fields or [])])


class Memory(Generic[_S]):
    """What is remembered of each key, with a bound: the key seen first is forgotten first.

    Args:
        keep: how many keys.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._states: dict[str, _S] = {}

    def at(self, key: str, make: Callable[[], _S], fits: Callable[[_S], bool] | None = None) -> _S:
        """Return the state of `key`; a new one when there is none, or when it does not fit the request's numbers."""
        state = self._states.get(key)
        if state is None or (fits is not None and not fits(state)):
            if len(self._states) >= self._keep and key not in self._states:
                del self._states[next(iter(self._states))]
            state = self._states[key] = make()
        return state

    def clear(self) -> None:
        """Forget every key."""
        self._states = {}


def state_key(exchange: Exchange) -> str:
    """Return the name under which a key's state and counts are kept: its path, as sent."""
    return f"/{exchange.name}/{exchange.rest}"


def whole_seconds(ns: int) -> int:
    """Return ns as a Retry-After must say them: whole seconds, rounded up, never 0 (RFC 9110 10.2.3)."""
    return max(1, -(-ns // SECOND))


def announced(style: str, n: int, per: int, verdict: Verdict) -> list[tuple[str, str]]:
    """Return the header fields that announce a quota.

    Args:
        style: "draft" for RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11), "x" for
            X-RateLimit-* with a reset in seconds, "epoch" for the same with a reset as a Unix time, "old" for
            RateLimit-Limit, -Remaining and -Reset as earlier drafts had them.
        n: the limit.
        per: its window, ns.
        verdict: what it said to this request; its reset is when the oldest counted request leaves the window.
    """
    reset = -(-verdict.reset // SECOND)
    match style:
        case "draft":
            policy = f'"default";q={n};w={whole_seconds(per)}'
            return [("RateLimit-Policy", policy), ("RateLimit", f'"default";r={verdict.remaining};t={reset}')]
        case "old":
            prefix = "RateLimit"
        case "epoch":
            prefix = "X-RateLimit"
            reset = -(-(time.time_ns() + verdict.reset) // SECOND)
        case _:
            prefix = "X-RateLimit"
    values = (("Limit", n), ("Remaining", verdict.remaining), ("Reset", reset))
    return [(f"{prefix}-{name}", str(value)) for name, value in values]


def _numbers(exchange: Exchange) -> tuple[int, int]:
    return exchange.params.whole("n", 50, low=1), exchange.params.time("per", "5", "s", zero=False)
