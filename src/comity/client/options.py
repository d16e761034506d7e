"""Options: what a client takes at its construction and with each request."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, TypedDict, get_args

from comity.client.accept import AcceptGiven
from comity.client.address import Params
from comity.client.auth import Auth, Sign
from comity.client.content import Content
from comity.client.headers import HeaderInput
from comity.client.multipart import FormFields, FormFiles
from comity.errors import OptionsError
from comity.policy.adaptive import Adaptive, Algorithm
from comity.policy.breaker import Breaker
from comity.policy.budget import RetryBudget
from comity.policy.header_names import HeaderNames
from comity.policy.hedge import Hedge
from comity.policy.naming import check_names
from comity.policy.options import OPTIONS, Learn, Policy, RateGiven
from comity.policy.retry import BackoffFunction, Retry
from comity.policy.timeouts import Timeout
from comity.policy.units import Seconds
from comity.policy.usage import UsageGiven

RaiseFor = Literal["never", "error", "non_2xx"]
"""Which whole answers are raised as StatusError: none, those from 400 on, or all but 2xx."""

RAISE_FOR: tuple[str, ...] = get_args(RaiseFor)


RetryGiven = Retry | BackoffFunction | int | None
"""A Retry, the number of retries, or a function of RetryInfo that alone decides; None for the default."""

AuthGiven = tuple[str, str] | Auth | Sign
"""User and password, a `Bearer`, a `TokenSource`, or a function of the request that returns headers."""


class Unset(Enum):
    """Stands for "not given" where None means "no limit"."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class PolicyOptions(TypedDict, total=False):
    """The options of `Policy`, as keywords of a client."""

    rate: RateGiven
    concurrency: int | None
    min_gap: Seconds | None
    max_queue: int
    queue_timeout: Seconds | None
    ageing: Seconds | None
    learn: Learn | None
    retry: RetryGiven
    timeout: Timeout | Seconds | None
    deadline: Seconds | None
    header_names: HeaderNames | None
    group: str | None
    adaptive: Adaptive | bool | Algorithm | None
    obey_quotas: bool
    retry_budget: RetryBudget | bool | None
    breaker: Breaker | bool | None
    hedge: Hedge | Seconds | None
    usage: UsageGiven | None


class RequestOptions(TypedDict, total=False):
    """What one request may say; see `AsyncClient.request`."""

    params: Params | None
    headers: HeaderInput | None
    content: Content | None
    json: Any
    data: FormFields | None
    files: FormFiles | None
    priority: int
    cost: int | Mapping[str, int]
    idempotent: bool | None
    idempotency_key: str | bool | None
    timeout: Timeout | Seconds | None
    deadline: Seconds | None
    retry: RetryGiven
    raise_for: RaiseFor | None
    expose_cookies: bool
    extensions: Mapping[str, Any] | None
    auth: AuthGiven | None
    follow_redirects: bool | None
    max_redirects: int | None
    accept: AcceptGiven


def client_policy(
    policy: Policy | None, given: PolicyOptions, own: tuple[str, ...], owner: str = "AsyncClient"
) -> Policy:
    """Return the policy of a client, or of another `owner`: the options over `policy`.

    Raises:
        OptionsError: a value cannot be used, or there is no such option; `own` are the owner's other names.
    """
    if policy is not None and not isinstance(policy, Policy):
        raise OptionsError("policy", policy, "a Policy(...)")
    check_names(owner, given, (*OPTIONS, *own))
    return (policy or Policy()).replace(**given) if given else policy or Policy()
