"""Breaker: the options of the rest that a host gets while it only fails."""

from __future__ import annotations

from dataclasses import dataclass, field

from comity.errors import OptionsError
from comity.policy.naming import named_options, unusable
from comity.policy.units import Seconds, as_ns, integer, required


@named_options
@dataclass(frozen=True, init=False)
class Breaker:
    """When a host counts as down, and how often it is asked for a sign of life then.

    It is down after so many failures in a row (5xx, no or a lost connection, timeouts). Then one request at a time goes out, a
    probe; the others wait for their turn, which spends none of their attempts. The first success ends it.

    Args:
        failures: so many in a row, but no fewer than twice what may run at once; at least 1, 6 by default.
        first_wait: before the first probe; each further wait is longer by half. Seconds or text, 0.5 by default.
        longest_wait: between two probes, 5 by default.

    Raises:
        OptionsError: a value cannot be used, or `first_wait` is longer than `longest_wait`.

    Example:
        >>> Breaker(longest_wait="1min").longest_wait
        60.0
    """

    failures: int
    first_wait: float
    longest_wait: float
    first_wait_ns: int = field(init=False, repr=False, compare=False)
    longest_wait_ns: int = field(init=False, repr=False, compare=False)

    def __init__(self, *, failures: int = 6, first_wait: Seconds = 0.5, longest_wait: Seconds = 5.0) -> None:
        first = required(first_wait, "breaker.first_wait", minimum=0.001)
        longest = required(longest_wait, "breaker.longest_wait", minimum=0.001)
        if first > longest:
            raise OptionsError(
                "breaker.first_wait", first_wait, f"at most longest_wait={longest:g}", reason="it is longer than that"
            )
        vars(self).update(
            failures=integer(failures, "breaker.failures", 1),
            first_wait=first,
            longest_wait=longest,
            first_wait_ns=as_ns(first),
            longest_wait_ns=as_ns(longest),
        )

    @classmethod
    def of(cls, value: Breaker | bool | None) -> Breaker | None:
        """Return a Breaker as it is; True is one with its defaults; None and False are none.

        Raises:
            OptionsError: it is none of these.
        """
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if isinstance(value, cls):
            return value
        raise unusable("breaker", value, "True, a Breaker(...) or None")
