"""Accept: what an answer counts as, where its status alone does not say it.

Some APIs answer 200 to everything and put the error into the body, others say 403 for "too fast". A rule names such
answers and what they come to; retries, pauses and errors follow from that as if the status had said it:

    "ok"         a success, whatever the status
    "retry"      like a 503: sent again if the request may be repeated, then an error
    "fail"       like a 400: an error, never sent again
    "pause"      like a 429: the host is paused for as long as the answer asks, or by the backoff
    "pause:30s"  the same for 30 s; a function of the answer may return the seconds

The first rule that fits decides; an answer that none fits counts as what it is. Attempts and events keep the true status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final

from msgspec.structs import replace

from comity.client.response import Response
from comity.engine.call import Exchange, Slot
from comity.errors import BadResponse, OptionsError
from comity.policy.json_path import MISSING, JsonPath
from comity.policy.naming import named_options
from comity.policy.outcome import Outcome, asks_again
from comity.policy.units import flag, integer, plain_function, required, seconds

Verdict = str | Callable[[Response], float | timedelta | None]
""" "ok", "retry", "fail", "pause", "pause:30s", or a function that returns the seconds of a pause, None for "pause"."""

_COUNTS_AS: Final[Mapping[str, int]] = {"ok": 200, "retry": 503, "fail": 400, "pause": 429}
_FORM = '"ok", "retry", "fail", "pause", "pause:30s" or a function that returns the seconds of a pause'


class _Anything(Enum):
    ANYTHING = "anything but null"


@named_options
@dataclass(frozen=True, init=False, slots=True)
class Accept:
    """One rule on answers; all of its conditions have to hold.

    Args:
        verdict: what the answer counts as: "ok", "retry", "fail", "pause" (as long as the answer or the backoff says),
            "pause:30s", or a function of the answer that returns the seconds of a pause.
        status: the status code, or several.
        json: a place in the body's JSON, such as "error.code"; it has to hold something else than null, or `equals`.
        equals: what stands there, as a JSON value.
        when: a function of the answer that returns whether the rule fits.

    Raises:
        OptionsError: a value cannot be used, or there is no condition.

    Example:
        AsyncClient(accept=[
            Accept("pause:30s", status=403, json="error.errors[0].reason", equals="rateLimitExceeded"),
            Accept("fail", status=200, json="error"),
        ])
    """

    verdict: Verdict
    status: frozenset[int] | None
    json: JsonPath | None
    equals: object
    when: Callable[[Response], bool] | None
    counts_as: int

    def __init__(
        self,
        verdict: Verdict,
        *,
        status: int | Iterable[int] | None = None,
        json: str | None = None,
        equals: object = _Anything.ANYTHING,
        when: Callable[[Response], bool] | None = None,
    ) -> None:
        if status is None and json is None and when is None:
            raise OptionsError("accept", verdict, "a condition: status, json or when")
        if equals is not _Anything.ANYTHING and json is None:
            raise OptionsError("accept.equals", equals, "json beside it: the place where it is to stand")
        if not isinstance(equals, (_Anything, str, int, float, list, dict, type(None))):
            raise OptionsError("accept.equals", equals, "a JSON value")
        if when is not None:
            plain_function(when, "accept.when")
        put = object.__setattr__
        put(self, "verdict", verdict if isinstance(verdict, str) else _function(verdict))
        put(self, "counts_as", _counts_as(verdict))
        put(self, "status", None if status is None else _codes(status))
        put(self, "json", None if json is None else JsonPath(json, "accept.json"))
        put(self, "equals", equals)
        put(self, "when", when)

    def fits(self, response: Response, body: JsonBody) -> bool:
        """Return whether the conditions hold."""
        if self.status is not None and response.status_code not in self.status:
            return False
        if self.json is not None:
            found = self.json.find(body.value())
            if found is MISSING or not _fitting(found, self.equals):
                return False
        return self.when is None or flag(self.when(response), "accept.when (function returned)")

    def pause(self, response: Response) -> int | None:
        """Return how long to pause, ns, None where the rule does not say it."""
        if not isinstance(self.verdict, str):
            value: object = self.verdict(response)
            return None if value is None else seconds(required(value, "accept.verdict (function returned)"))
        _, mark, text = self.verdict.partition(":")
        return seconds(required(text, "accept.verdict")) if mark else None


class JsonBody:
    """The JSON of an answer, parsed when the first rule asks for it."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._parsed = False
        self._value: Any = MISSING

    def value(self) -> Any:
        """Return it, MISSING when there is none."""
        if not self._parsed:
            self._parsed = True
            with suppress(BadResponse):  # what is no JSON has nothing at any place
                self._value = self._response.json()
        return self._value


AcceptGiven = Accept | Iterable[Accept] | None
"""How rules are given: one, or several of which the first that fits decides."""


def rules(given: object) -> tuple[Accept, ...]:
    """Return checked rules.

    Raises:
        OptionsError: they are none.
    """
    if given is None:
        return ()
    if isinstance(given, Accept):
        return (given,)
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    for rule in found:
        if not isinstance(rule, Accept):
            raise OptionsError("accept", rule, 'Accept(...) or several, such as [Accept("fail", json="error")]')
    return found


def judge(accept: tuple[Accept, ...], response: Response, exchange: Exchange[Response], slot: Slot) -> None:
    """Write into an exchange what its answer counts as.

    Args:
        accept: the rules; the slot was told to wait for the whole answer because of them.
        response: the answer.
        exchange: what it came in; with an error, the body is broken and the status alone counts.
        slot: the attempt's.
    """
    if exchange.error is not None:
        exchange.outcome = Outcome(status=response.status_code, retry_after=slot.retry_after)
        return
    body = JsonBody(response)
    rule = next((rule for rule in accept if rule.fits(response, body)), None)
    if rule is None:
        return
    wait = rule.pause(response) if rule.counts_as == 429 else None
    if wait is None and asks_again(rule.counts_as):
        wait = slot.hint(rule.counts_as, response.headers.pairs)
    response.retry_after = response.retry_after if wait is None else wait / 1e9
    exchange.outcome = replace(exchange.outcome, counts_as=rule.counts_as, retry_after=wait)


def _counts_as(verdict: object) -> int:
    if not isinstance(verdict, str):
        return 429
    word, mark, text = verdict.partition(":")
    if word not in _COUNTS_AS or (mark and word != "pause"):
        raise OptionsError("accept.verdict", verdict, _FORM)
    if mark:
        required(text, "accept.verdict")
    return _COUNTS_AS[word]


def _function(verdict: object) -> object:
    if not callable(verdict):
        raise OptionsError("accept.verdict", verdict, _FORM)
    plain_function(verdict, "accept.verdict")
    return verdict


def _codes(status: object) -> frozenset[int]:
    several = status if isinstance(status, Iterable) and not isinstance(status, (str, bytes)) else (status,)
    return frozenset(integer(code, "accept.status", 200, 999) for code in several)


def _fitting(found: object, wanted: object) -> bool:
    if wanted is _Anything.ANYTHING:
        return found is not None
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)  # 1 is not true in JSON
