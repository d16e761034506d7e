"""RetryBudget: how many retries a host gets besides its successes, so that failing requests do not double its load.

Theory. When a host fails altogether, every request comes with all its retries, just when it can bear least. A bucket of
retries bounds that: it holds some at the start, each success adds a part of one, and so does time. While it lasts nothing
is different; when it is empty a retry is given up, or put off. As one retry in five successes is free, single failures
never notice. Refusals by rate spend nothing: the gate paces these (Finagle's
retry budget and gRPC's retry throttling, proposal A6, work alike).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from comity.policy.naming import check_choice, named_options, unusable
from comity.policy.retry import GiveUp, RetryAt
from comity.policy.units import NS, number

PUT_OFF = (5 * NS, 10 * NS)
"""How long a retry is put off that the budget does not cover, ns: at random, so that they do not come back together."""


@named_options
@dataclass(frozen=True, init=False)
class RetryBudget:
    """The retries of one host, apart from those after refusals by rate.

    Args:
        start: retries at the beginning.
        per_success: what each success adds.
        per_second: what each second adds.
        most: more are never saved up; at least 1.
        empty: "fail" ends the call with its last answer or error; "defer" waits 5 to 10 s longer.

    Raises:
        OptionsError: a value cannot be used.
    """

    start: float
    per_success: float
    per_second: float
    most: float
    empty: Literal["fail", "defer"]

    def __init__(
        self,
        *,
        start: float = 10,
        per_success: float = 0.2,
        per_second: float = 0.1,
        most: float = 100,
        empty: Literal["fail", "defer"] = "fail",
    ) -> None:
        check_choice(empty, "retry_budget.empty", ("fail", "defer"))
        vars(self).update(
            start=number(start, "retry_budget.start", 0, 1e9),
            per_success=number(per_success, "retry_budget.per_success", 0, 1e3),
            per_second=number(per_second, "retry_budget.per_second", 0, 1e6),
            most=number(most, "retry_budget.most", 1, 1e9),
            empty=empty,
        )

    @classmethod
    def of(cls, value: RetryBudget | bool | None) -> RetryBudget | None:
        """Return a RetryBudget as it is; True is the usual one; None and False are none.

        Raises:
            OptionsError: it is none of these.
        """
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, bool):
            return cls() if value else None
        raise unusable("retry_budget", value, "True, a RetryBudget(...) or None")


class Bucket:
    """What is left of a budget.

    Args:
        budget: the rules.
        now: ns.
    """

    __slots__ = ("_at", "_left", "budget")

    def __init__(self, budget: RetryBudget, now: int) -> None:
        self.budget, self._at = budget, now
        self._left = min(budget.start, budget.most)

    def left(self, now: int) -> float:
        """Return how many retries are left."""
        earned = max(0, now - self._at) / NS * self.budget.per_second
        return min(self.budget.most, self._left + earned)

    def succeeded(self) -> None:
        """Add what a success adds."""
        self._left = min(self.budget.most, self._left + self.budget.per_success)

    def take(self, now: int) -> bool:
        """Take one, if there is one."""
        left = self.left(now)
        if left < 1:
            return False
        self._left, self._at = left - 1, now
        return True

    def charge(self, retry: RetryAt, now: int, draw: float, *, deadline: int | None) -> RetryAt | GiveUp:
        """Pay for a retry, and say what comes of it.

        Args:
            retry: what was decided; not after a refusal.
            now: ns.
            draw: uniform in [0, 1), for how long it is put off.
            deadline: of the call, ns, or None.
        """
        if self.take(now):
            return retry
        if self.budget.empty == "fail":
            return GiveUp("budget", pause=retry.pause)
        low, high = PUT_OFF
        at = max(retry.at, now + low + round((high - low) * draw))
        if deadline is not None and at >= deadline:
            return GiveUp("budget", pause=retry.pause)
        return RetryAt(at, f"{retry.reason}, put off", retry.pause)

    def idle(self, now: int) -> bool:
        """Whether a new bucket would hold no less."""
        return self.left(now) >= min(self.budget.start, self.budget.most)
