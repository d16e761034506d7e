"""Conditions: what an upstream bears, read from words.

bucket 40/s [burst 40]    a bucket that fills at this rate and starts full; burst is one second's worth by default
window 20/s               at most so many in ANY such window
fixed 100/min             at most so many in each of the windows that follow one another
slots 8 [queue 100]       so many at once, each for the latency; more of them wait, and over the queue they get 503
latency 50ms              what an answer takes; 50ms by default
jitter 20ms               up to so much more, at random
errors 2%                 so many of the accepted ones end with 500
announces draft           each answer has RateLimit fields; or "x" or "old" for the older spellings
hint no                   429 and 503 say no Retry-After
at 20s ...                what changes then; all else stays
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from comity.errors import OptionsError
from comity.policy.units import NS, parse_integer, parse_rate, required, seconds

Kind = Literal["none", "bucket", "window", "fixed"]

EXAMPLE = "words such as 'bucket 40/s burst 40 latency 50ms', 'window 100/min' or 'slots 8 latency 200ms'"
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")
_BOTH_WAYS = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What an upstream bears for a while.

    Args:
        since: from when on, ns after the first request.
        kind: which limit by rate.
        count, per: that many in so many ns.
        burst: what a bucket holds; 0 stands for one second's worth, at least 1.
        slots: how many are served at once; None for any number.
        queue: how many may wait for one of them.
        latency, jitter: ns.
        errors: the share that ends with 500.
        announces: the style of RateLimit fields.
        hint: whether refusals say Retry-After.
    """

    since: int = 0
    kind: Kind = "none"
    count: int = 0
    per: int = NS
    burst: int = 0
    slots: int | None = None
    queue: int | None = None
    latency: int = 50_000_000
    jitter: int = 0
    errors: float = 0.0
    announces: str | None = None
    hint: bool = True

    @property
    def rate(self) -> Fraction | None:
        """What the limit lets through in a second, in the long run; None without one."""
        found = [Fraction(self.count * NS, self.per)] if self.kind != "none" else []
        found += [Fraction(self.slots * NS, max(1, self.latency + self.jitter // 2))] if self.slots else []
        return min(found, default=None)

    @property
    def ahead(self) -> int:
        """What may come at once before the rate counts."""
        return {"none": 0, "bucket": self.size, "window": self.count, "fixed": self.count}[self.kind]

    @property
    def size(self) -> int:
        """What a bucket holds."""
        return self.burst or max(1, self.count * NS // self.per)


def read(text: str, option: str = "--upstream") -> list[Conditions]:
    """Return what holds from the beginning, and after each change.

    Raises:
        OptionsError: a word is not known, or its value cannot be used.
    """
    words = iter(text.replace(",", " ").split())
    phases = [Conditions()]
    try:
        for word in words:
            phases[-1:] = _with(phases[-1], word, words)
    except OptionsError as error:
        if error.option == option:
            raise
        raise OptionsError(option, text, EXAMPLE, reason=str(error)) from None
    return phases


def _with(now: Conditions, word: str, words: Iterator[str]) -> list[Conditions]:
    """Return `now` with one word more; `at` begins the next phase."""
    known = _WORDS.get(word)
    if known is None and word != "at":
        raise OptionsError("a word", word, f"one of {', '.join((*_WORDS, 'at'))}")
    value = next(words, None)
    if value is None:
        raise OptionsError(word, None, reason="it needs a value")
    if known is None:
        since = _time(value, "at")
        if since <= now.since:
            raise OptionsError("at", value, reason="the times have to rise")
        return [now, replace(now, since=since)]
    return [replace(now, **known(value, word))]


def _time(text: str, word: str) -> int:
    return seconds(required(text, word))


def _limit(text: str, word: str) -> dict[str, Any]:
    count, per, unit = parse_rate(text, word)
    if unit != "requests":
        raise OptionsError(word, text, reason="requests alone are counted")
    return {"kind": word, "count": count, "per": per}


def _count(text: str, word: str) -> dict[str, Any]:
    return {word: parse_integer(text, word, 0 if word == "queue" else 1)}


def _span(text: str, word: str) -> dict[str, Any]:
    return {word: _time(text, word)}


def _share(text: str, word: str) -> dict[str, Any]:
    match = _PERCENT.fullmatch(text)
    if match is None or float(match[1]) > 100:
        raise OptionsError(word, text, "a share such as 2%")
    return {word: float(match[1]) / 100}


def _style(text: str, word: str) -> dict[str, Any]:
    if text not in {"draft", "x", "old"}:
        raise OptionsError(word, text, "draft, x or old")
    return {word: text}


def _choice(text: str, word: str) -> dict[str, Any]:
    if text not in _BOTH_WAYS:
        raise OptionsError(word, text, "yes or no")
    return {word: _BOTH_WAYS[text]}


_WORDS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "bucket": _limit,
    "window": _limit,
    "fixed": _limit,
    "burst": _count,
    "slots": _count,
    "queue": _count,
    "latency": _span,
    "jitter": _span,
    "errors": _share,
    "announces": _style,
    "hint": _choice,
}
