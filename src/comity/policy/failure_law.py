"""FailureLaw: what failures say (5xx, lost connections, timeouts) that are no refusals by rate.

Theory. A service that fails needs less load, and one that only fails none but a sign of life now and then. Three failures
in a row, or a timeout, cut the limit, once per latency: more of them tell of the same moment. max(failures, 2L) in a row open
the breaker: single probes, `first_wait` apart at first and by half more each time, up to `longest_wait`; the first success
closes it. A probe that hangs keeps the next one back for no longer than that, so an outage is left soon after its end.
"""

from __future__ import annotations

from comity.policy.breaker import Breaker

ROW = 3
CUT = 0.7
ROWS = 2.0
"""The breaker opens after so many times L failures in a row, but no fewer than its options say."""
GROWTH = 1.5


class FailureLaw:
    """A breaker.

    Args:
        options: how it is set.

    Attributes:
        open: only probes go out.
        until: ns; the earliest start of the next probe, 0 while closed.
    """

    __slots__ = ("_cut_after", "_from", "_options", "_row", "_wait", "open", "until")

    def __init__(self, options: Breaker = Breaker()) -> None:  # noqa: B008 - frozen
        self._options = options
        self.open = False
        self.until = 0
        self._row = self._from = self._cut_after = 0
        self._wait = options.first_wait_ns

    def begin(self, now: int) -> None:
        """Note a start while it is open: a probe."""
        self._wait = min(self._options.longest_wait_ns, int(self._wait * GROWTH))
        self.until = now + self._wait

    def success(self, rank: int) -> bool:
        """Note the success of start `rank`; return whether it closed the breaker."""
        self._row = 0
        if not self.open or rank < self._from:
            return False
        self.open = False
        self.until = 0
        self._wait = self._options.first_wait_ns
        return True

    def failure(self, now: int, following: int, limit: float, latency: float, *, timed_out: bool) -> bool:
        """Note a failure; return whether the limit is to be cut.

        Args:
            now: ns.
            following: the rank of the next start.
            limit: L.
            latency: what an answer takes at present, ns.
            timed_out: it was a timeout.
        """
        self._row += 1
        if self.open:
            return False
        if self._row >= max(self._options.failures, ROWS * limit):
            self.open = True
            self._from = following
            self.until = now + self._wait
            return False
        if now < self._cut_after or not (timed_out or self._row >= ROW):
            return False
        self._cut_after = now + int(latency)
        return True
