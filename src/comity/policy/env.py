"""A policy from environment variables: the same five in every program, told apart by a prefix.

    <PREFIX>_RATE             60/min, 10/s, 50/5s; off or 0 for none
    <PREFIX>_CONCURRENCY      a whole number; off or 0 for no limit
    <PREFIX>_MIN_GAP          a duration such as 250ms; off or 0 for none
    <PREFIX>_RETRIES          a whole number: sends after the first
    <PREFIX>_MAX_RETRY_WAIT   a duration such as 60s or 5min; off for no limit

An empty or blank variable counts as unset. A mistake never keeps a program from starting: it is told and passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from comity.errors import OptionsError
from comity.policy.rate import Rate
from comity.policy.retry import Retry
from comity.policy.units import duration, is_off, parse_integer


def read_environment(
    prefix: str, retry: Retry, environ: Mapping[str, str], *, strict: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Read the options of a Policy that the environment sets.

    Args:
        prefix: of the variables, without its underscore.
        retry: the rules that <PREFIX>_RETRIES and <PREFIX>_MAX_RETRY_WAIT change.
        environ: the variables.
        strict: raise instead of passing over mistakes.

    Returns:
        Options by name, and one warning for each variable that was passed over.

    Raises:
        OptionsError: the prefix is none; or `strict`, and then it lists every mistake.
    """
    stem = _stem(prefix)
    options: dict[str, Any] = {}
    wrong: list[OptionsError] = []
    for suffix, (option, read) in _VARIABLES.items():
        name = f"{stem}_{suffix}"
        text = environ.get(name, "").strip()
        if not text:
            continue
        try:
            options[option] = read(text, name)
        except OptionsError as mistake:
            wrong.append(mistake)
    if strict and wrong:
        names, values = ", ".join(each.option for each in wrong), tuple(each.value for each in wrong)
        raise OptionsError(names, values, reason="; ".join(map(str, wrong)))
    changes: dict[str, Any] = {name: options.pop(name) for name in ("retries", "max_retry_after") if name in options}
    if changes:
        options["retry"] = _changed(retry, changes)
    return options, [f"{mistake}; the variable is ignored" for mistake in wrong]


def _stem(prefix: object) -> str:
    stem = prefix.removesuffix("_") if isinstance(prefix, str) else ""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", stem):
        raise OptionsError("prefix", prefix, 'the start of a variable\'s name, such as "SUBSTACK"')
    return stem


def _changed(retry: Retry, changes: dict[str, Any]) -> Retry:
    if "retries" in changes:
        # 0 is meant as "send once", so refusals by rate are not waited out either.
        retries = changes.pop("retries")
        changes |= {"attempts": retries + 1} | ({} if retries else {"refusals": 0})
    return replace(retry, **changes)


def _rate(text: str, name: str) -> tuple[Rate, ...]:
    return () if is_off(text) else (Rate.of(text, name),)


def _concurrency(text: str, name: str) -> int | None:
    return None if is_off(text) else parse_integer(text, name, 1)


def _min_gap(text: str, name: str) -> float | None:
    return None if is_off(text) else duration(text, name)


def _retries(text: str, name: str) -> int:
    return 0 if is_off(text) else parse_integer(text, name, 0)


_VARIABLES: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "RATE": ("rate", _rate),
    "CONCURRENCY": ("concurrency", _concurrency),
    "MIN_GAP": ("min_gap", _min_gap),
    "RETRIES": ("retries", _retries),
    "MAX_RETRY_WAIT": ("max_retry_after", duration),
}
