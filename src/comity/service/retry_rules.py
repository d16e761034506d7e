"""RetryRules: what the stored fields of a request mean for its retries. The engine decides by them, `Errand` applies strict4xx.

maxRetries    sends beyond the first
backoffMs     wait before retry n (from 1) = backoffMs * 2**n * U[0.8, 1.2]
strict4xx     every 4xx ends the delivery; else 408, 425 and 429 are tried again, as they say that this may help
delivery      "at_least_once": whatever may not have arrived is sent again, under the same Idempotency-Key
              "at_most_once": only what surely did not arrive is, or was refused by rate
"""

from __future__ import annotations

from typing import get_args

from comity.policy.backoff import Backoff
from comity.policy.naming import check_choice, named_options
from comity.policy.retry import CallState, Retry
from comity.policy.units import flag, integer
from comity.store.records import Mode

RETRIES, MOST_RETRIES = 5, 1_000
BACKOFF_MS, LEAST_BACKOFF_MS, MOST_BACKOFF_MS = 1_000, 100, 86_400_000

LONGEST_HINT = "7d"
"""The longest Retry-After that a delivery waits for. It costs nothing but a row, so it may be much longer than a call's."""


@named_options
class RetryRules:
    """The rules of one request.

    Args:
        max_retries: at least 1.
        backoff_ms: milliseconds, at least 100.
        strict_4xx: let every 4xx be final.
        delivery: what to do about a send of unknown outcome.

    Raises:
        OptionsError: a value cannot be used.

    Example:
        >>> RetryRules(max_retries=2, backoff_ms=500).retry.attempts
        3
    """

    def __init__(
        self,
        *,
        max_retries: int = RETRIES,
        backoff_ms: int = BACKOFF_MS,
        strict_4xx: bool = False,
        delivery: Mode = "at_least_once",
    ) -> None:
        check_choice(delivery, "delivery", get_args(Mode))
        base = integer(backoff_ms, "backoff_ms", LEAST_BACKOFF_MS, MOST_BACKOFF_MS) / 1_000
        self.strict_4xx = flag(strict_4xx, "strict_4xx")
        self.delivery = delivery
        self.retry = Retry(
            retries=integer(max_retries, "max_retries", 1, MOST_RETRIES),
            backoff=Backoff(base=base, shift=1, cap=None, jitter=(0.8, 1.2)),
            max_retry_after=LONGEST_HINT,
        )

    def call(
        self,
        *,
        attempts: int = 0,
        refusals: int = 0,
        refusals_in_a_row: int = 0,
        deadline: int | None = None,
        started: int = 0,
    ) -> CallState:
        """Return what a request has been through, from its row; see `CallState`. Times are ns on the caller's clock."""
        return CallState(
            attempts=attempts,
            refusals=refusals,
            refusals_in_a_row=refusals_in_a_row,
            idempotent=self.delivery == "at_least_once",
            deadline=deadline,
            started=started,
        )
