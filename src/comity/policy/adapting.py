"""Adapting: from the options of adaptive control to the control itself."""

from __future__ import annotations

from comity.policy.adaptive import Adaptive
from comity.policy.auto import Auto
from comity.policy.breaker import Breaker
from comity.policy.controller import Controller
from comity.policy.ema import Ema
from comity.policy.pause import NO_CAP
from comity.policy.rate_law import RateLaw


def controller(
    options: Adaptive | None,
    concurrency: int | None,
    breaker: Breaker | None,
    now: int,
    wall_offset: int,
    *,
    learns_rate: bool,
) -> Controller | None:
    """Return a host's adaptive control, or None without one.

    Args:
        options: checked against `concurrency`.
        concurrency: the host's limit, None for none.
        breaker: how the breaker of a control that has one is set; None for the usual.
        now: ns.
        wall_offset: wall clock minus the clock of `now`, ns.
        learns_rate: whether 429s teach a rate where the control does not say so itself.
    """
    if options is None:
        return None
    if options.algorithm == "ema":
        assert concurrency is not None
        return Ema(options, concurrency, RateLaw(now) if learns_rate else None)
    return Auto(
        minimum=options.min_concurrency,
        maximum=NO_CAP if concurrency is None else concurrency,
        initial=options.initial_concurrency,
        now=now,
        breaker=breaker or Breaker(),
        wall_offset=wall_offset,
    )
