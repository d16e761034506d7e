"""Presets: what a view of a client says of its requests, where they do not say it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from comity.client.accept import AcceptGiven
from comity.client.headers import HeaderInput
from comity.client.options import AuthGiven, RaiseFor, RetryGiven
from comity.policy.naming import check_names
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from comity.policy.units import Seconds, duration, priority


class ViewOptions(TypedDict, total=False):
    """What a view may say otherwise; see `AsyncClient.with_options`."""

    headers: HeaderInput | None
    auth: AuthGiven | None
    priority: int
    timeout: Timeout | Seconds | None
    deadline: Seconds | None
    retry: RetryGiven
    raise_for: RaiseFor
    accept: AcceptGiven


def presets(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `request` that a view fills in, checked.

    Args:
        given: all options of the view; headers, auth, raise_for and accept are the client's to take.

    Raises:
        OptionsError: a value cannot be used, or there is no such option.
    """
    check_names("with_options", given, ViewOptions.__annotations__)
    found: dict[str, Any] = {}
    if "priority" in given:
        found["priority"] = priority(given["priority"])
    if "timeout" in given:
        found["timeout"] = Timeout.of(given["timeout"])
    if "deadline" in given:
        found["deadline"] = duration(given["deadline"], "deadline", minimum=0.001)
    if "retry" in given:
        found["retry"] = Retry.of(given["retry"])
    return found
