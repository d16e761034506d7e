"""Policy: every rule for one host as one value."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from comity.errors import OptionsError
from comity.policy.adaptive import Adaptive, Algorithm
from comity.policy.breaker import Breaker
from comity.policy.budget import RetryBudget
from comity.policy.env import read_environment
from comity.policy.header_names import HeaderNames
from comity.policy.hedge import Hedge
from comity.policy.json_path import JsonPath
from comity.policy.naming import check_choice, check_names, named_options, unusable
from comity.policy.rate import Rate
from comity.policy.retry import BackoffFunction, Retry
from comity.policy.timeouts import Timeout
from comity.policy.units import Seconds, as_ns, duration, flag, integer, is_off
from comity.policy.usage import Usage, UsageGiven

RateGiven = str | Rate | Sequence[str | Rate] | None
"""How rates are given: "50/5s", a Rate, several of them, or None (or "off") for none."""

Learn = Literal["rate", "gap"]
"""What refusals teach."""


@named_options
@dataclass(frozen=True, init=False)
class Policy:
    """How to treat one host. Durations are seconds, timedelta or text ("250ms"); None is no limit.

    Args:
        rate: "50/5s", a `Rate`, or several that hold together.
        concurrency: requests in flight at once; at least 1, 10 by default.
        min_gap: the least time between two starts.
        max_queue: requests that may wait; one more is refused with QueueFull. At least 1.
        queue_timeout: the longest wait for a turn.
        ageing: after so long a wait a request counts one priority step more urgent; None keeps priorities strict.
        learn: what 429s teach besides their pause. "rate": the server's, where no `rate` of requests is given.
            "gap": a gap between starts, 250 ms and doubling to 10 s, which 20 successes in a row halve. None:
            nothing.
        retry: a `Retry`, a number of retries, or a function of `RetryInfo` that returns seconds or None; see `Retry.of`.
        timeout: a `Timeout`, or a duration that limits each attempt.
        deadline: the longest time for a call as a whole, queue and retries included.
        header_names: the API's own names of quota headers, besides the usual ones.
        group: "json:PATH", such as "json:model": requests with different values at that place of their JSON body have
            limiters of their own, each with these rules; those without such a value share one.
        adaptive: let concurrency follow what answers tell: True or "auto", "ema", or an `Adaptive`; `concurrency` is then the
            most. With "auto" 429s teach a rate whatever `learn` says. None or False: nothing adapts.
        obey_quotas: spread what answers announce to be left of a quota over the time to its reset, when more is wanted, and
            wait for the reset when nothing is left; with a `rate`, those quotas that are reset later than in 10 s.
        retry_budget: how many retries the host gets besides its successes: a `RetryBudget`, True for the usual one, None or
            False for no such bound.
        breaker: while a host only fails, one request at a time goes out, ever more seldom, and the others wait: True, a
            `Breaker`, or None for no such rest. With adaptive "auto" it is always on, and this says how it is set.
        hedge: when an idempotent request that is late is sent once more beside itself: a `Hedge`, or the time after which
            it is ("p95", "300ms"). It is paid from the retry budget, which is the usual one then if none is given.
        usage: where answers tell what they really cost, by budget: {"tokens": "usage.total_tokens"}, several places whose
            sum it is, or a function of the answer; it corrects the `cost` that a request was charged with. Places of budgets
            that a host's rates do not count are left alone there; one that no host's rates count is refused by the client.

    Raises:
        OptionsError: a value cannot be used, or there is no such option; the message names the nearest.

    Example:
        >>> Policy(rate=["50/5s", "5000/h"], concurrency=4, retry=2).rate[1].max
        5000
    """

    rate: tuple[Rate, ...]
    concurrency: int | None
    min_gap: float | None
    max_queue: int
    queue_timeout: float | None
    ageing: float | None
    learn: Learn | None
    retry: Retry
    timeout: Timeout
    deadline: float | None
    header_names: HeaderNames | None
    group: str | None
    adaptive: Adaptive | None
    obey_quotas: bool
    retry_budget: RetryBudget | None
    breaker: Breaker | None
    hedge: Hedge | None
    usage: Usage | None
    group_field: JsonPath | None = field(init=False, repr=False, compare=False)
    min_gap_ns: int = field(init=False, repr=False, compare=False)
    queue_timeout_ns: int | None = field(init=False, repr=False, compare=False)
    ageing_ns: int | None = field(init=False, repr=False, compare=False)
    deadline_ns: int | None = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        *,
        rate: RateGiven = None,
        concurrency: int | None = 10,
        min_gap: Seconds | None = None,
        max_queue: int = 100_000,
        queue_timeout: Seconds | None = None,
        ageing: Seconds | None = 60.0,
        learn: Learn | None = "rate",
        retry: Retry | BackoffFunction | int | None = None,
        timeout: Timeout | Seconds | None = Timeout(),  # noqa: B008 - frozen
        deadline: Seconds | None = None,
        header_names: HeaderNames | None = None,
        group: str | None = None,
        adaptive: Adaptive | bool | Algorithm | None = None,
        obey_quotas: bool = True,
        retry_budget: RetryBudget | bool | None = None,
        breaker: Breaker | bool | None = None,
        hedge: Hedge | Seconds | None = None,
        usage: Usage | UsageGiven | None = None,
    ) -> None:
        if not isinstance(header_names, HeaderNames | None):
            raise OptionsError("header_names", header_names, 'a HeaderNames(remaining="X-Left", ...) or None')
        if learn is not None:
            check_choice(learn, "learn", get_args(Learn))
        late = Hedge.of(hedge)
        most = None if concurrency is None else integer(concurrency, "concurrency", 1)
        adapts = Adaptive.of(adaptive)
        if adapts is not None:
            adapts.check(most)
            _check_auto(adapts, learn=learn, breaker=breaker)
        gap = duration(min_gap, "min_gap") or None
        turn = duration(queue_timeout, "queue_timeout")
        step = duration(ageing, "ageing", minimum=0.001)
        end = duration(deadline, "deadline", minimum=0.001)
        vars(self).update(
            rate=_rates(rate),
            concurrency=most,
            min_gap=gap,
            max_queue=integer(max_queue, "max_queue", 1),
            queue_timeout=turn,
            ageing=step,
            learn=learn,
            retry=Retry.of(retry),
            timeout=Timeout.of(timeout),
            deadline=end,
            header_names=header_names,
            group=group,
            adaptive=adapts,
            obey_quotas=flag(obey_quotas, "obey_quotas"),
            retry_budget=RetryBudget.of(retry_budget) or (None if late is None else RetryBudget()),
            breaker=Breaker.of(breaker),
            hedge=late,
            usage=Usage.of(usage),
            group_field=None if group is None else _field(group),
            min_gap_ns=as_ns(gap) or 0,
            queue_timeout_ns=as_ns(turn),
            ageing_ns=as_ns(step),
            deadline_ns=as_ns(end),
        )

    @property
    def budgets(self) -> frozenset[str]:
        """What the rates count: "requests", "tokens"."""
        return frozenset(rate.unit for rate in self.rate)

    @property
    def knows_rate(self) -> bool:
        """Whether a rate of requests is given."""
        return "requests" in self.budgets

    @property
    def learns_gap(self) -> bool:
        """Whether 429s widen the gap between starts: one law at a time learns from them."""
        return self.learn == "gap" and not self._owns_refusals

    @property
    def learns_rate(self) -> bool:
        """Whether 429s teach a rate where no control owns them: one that is known needs no guess."""
        return self.learn == "rate" and not self.knows_rate and not self._owns_refusals

    @property
    def _owns_refusals(self) -> bool:
        """Whether the adaptive control has a law for 429s anyway: that of latency alone has none."""
        return self.adaptive is not None and self.adaptive.algorithm != "ema"

    def replace(self, **changes: object) -> Policy:
        """Return a copy with some options changed.

        Raises:
            OptionsError: as at construction.

        Example:
            >>> Policy(rate="10/s").replace(concurrency=2).concurrency
            2
        """
        given: dict[str, object] = {name: getattr(self, name) for name in OPTIONS}
        return policy_of(given | changes)

    @classmethod
    def from_env(
        cls,
        prefix: str,
        default: Policy | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> tuple[Policy, list[str]]:
        """Return the policy that environment variables ask for; they win over `default`.

        Args:
            prefix: "SUBSTACK" reads SUBSTACK_RATE, _CONCURRENCY, _MIN_GAP, _RETRIES and _MAX_RETRY_WAIT.
            default: what is not set; `Policy()` by default.
            environ: the variables; `os.environ` by default.
            strict: raise instead of passing over what does not parse.

        Returns:
            The policy, and a warning for each variable that was passed over.

        Raises:
            OptionsError: the prefix cannot start a variable's name; or `strict`, and then it lists every mistake.

        Example:
            >>> Policy.from_env("API", environ={"API_RATE": "60/min", "API_RETRIES": "0"})[0].retry.attempts
            1
        """
        if default is not None and not isinstance(default, cls):
            raise OptionsError("default", default, "a Policy(...)")
        base = cls() if default is None else default
        changes, warnings = read_environment(
            prefix, base.retry, os.environ if environ is None else environ, strict=strict
        )
        return base.replace(**changes), warnings


OPTIONS = tuple(each.name for each in fields(Policy) if each.init)
"""The names of all options of a Policy."""


def policy_of(options: Mapping[str, object]) -> Policy:
    """Return the Policy of options that come from outside, checked by value and name.

    Raises:
        OptionsError: as `Policy`.
    """
    check_names("Policy", options, OPTIONS)
    return Policy(**options)  # type: ignore[arg-type]


def _check_auto(adaptive: Adaptive, *, learn: object, breaker: object) -> None:
    """Refuse what "auto" would have to pass over, as it has laws of its own for refusals and failures."""
    if adaptive.algorithm != "auto":
        return
    if learn == "gap":
        reason = 'with adaptive.algorithm="auto" 429s teach a rate in place of the gap'
        raise OptionsError("learn", learn, '"rate" or None, or adaptive without it', reason=reason)
    if breaker is False:
        reason = 'adaptive.algorithm="auto" has a breaker always'
        raise OptionsError("breaker", breaker, "None, True or a Breaker(...), or adaptive without it", reason=reason)


def _field(group: object) -> JsonPath:
    kind, _, path = group.partition(":") if isinstance(group, str) else ("", "", "")
    if kind != "json":
        raise unusable("group", group, 'a place in JSON bodies such as "json:model"')
    return JsonPath(path, "group")


def _rates(value: RateGiven) -> tuple[Rate, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return () if is_off(value) else (Rate.of(value),)
    if isinstance(value, Rate):
        return (value,)
    if isinstance(value, Sequence):
        return tuple(Rate.of(each) for each in value)
    raise OptionsError("rate", value, 'a rate such as "100/min", a Rate(...), a list of them, or None')
