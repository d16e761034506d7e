"""HostRules: which rules hold for a request, and with which others it shares its limits.

A key of `hosts` is a host name, with or without a port; it also covers the name's subdomains, the longest match wins,
and all hosts under one key share one limiter. Any other host has a limiter of its own. A key may mean a group of a host's
requests (see `HostKey`): the first of them that holds, in the order given, comes before the key of the whole host. With
`Policy(group="json:model")` each value of a field has a limiter of its own.

Limits, pauses, gaps and whatever else is learned from answers belong to the one limiter that a request was matched with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from comity import redact
from comity.policy.host_key import Ask, HostKey, is_address, plain, split_host
from comity.policy.naming import unusable
from comity.policy.options import Policy

PolicyGiven = Policy | Mapping[str, object]
"""How a host's rules are given: a Policy, or a mapping of the options that differ from the default."""

_REMEMBERED = 1024
_LONGEST_VALUE = 64


class Rule(NamedTuple):
    """The rules of a request.

    Args:
        name: of the limiter.
        policy: its rules.
    """

    name: str
    policy: Policy


class HostRules:
    """The rules of every host.

    Args:
        default: the rules of every host that `hosts` does not name.
        hosts: rules by key.

    Raises:
        OptionsError: a key names no host, or means the same as another, a value cannot be used, or no host counts a budget of `usage`.

    Example:
        >>> rules = HostRules(Policy(), {"deezer.com": {"rate": "50/5s"}})
        >>> rules.match("api.deezer.com").name
        'deezer.com'
    """

    def __init__(self, default: Policy | None = None, hosts: Mapping[str, PolicyGiven] | None = None) -> None:
        self.default = Policy() if default is None else default
        self._whole: dict[str, Rule] = {}
        self._groups: dict[str, list[tuple[HostKey, Rule]]] = {}
        if hosts is not None and not isinstance(hosts, Mapping):
            raise unusable("hosts", hosts, 'a mapping such as {"example.com": {"rate": "50/5s"}}')
        for given, options in (hosts or {}).items():
            key = HostKey(given)
            rule = Rule(key.text, self._policy(given, options))
            group = self._groups.setdefault(key.host, [])
            if key.conditional and all(key.text != other.text for other, _ in group):
                group.append((key, rule))
            elif key.conditional or self._whole.setdefault(key.host, rule) is not rule:
                raise unusable("hosts", given, reason="another key names the same host")
        counted = frozenset[str]().union(*(policy.budgets for policy in self.policies))
        for policy in self.policies:
            if policy.usage is not None:
                policy.usage.check(counted)
        self._of_host = lru_cache(maxsize=_REMEMBERED)(self._find)

    @property
    def policies(self) -> list[Policy]:
        """The default rules, and those of each key."""
        groups = (rule.policy for group in self._groups.values() for _, rule in group)
        return [self.default, *(rule.policy for rule in self._whole.values()), *groups]

    def grouped(self, host: str) -> bool:
        """Return whether requests to a host may have different limiters."""
        groups, rule = self._of_host(host)
        return bool(groups) or rule.policy.group is not None

    def match(self, host: str, ask: Ask | None = None) -> Rule:
        """Return the rules for a request.

        Args:
            host: a name or an address, perhaps with a port.
            ask: the request; without one the rules of the host as a whole.
        """
        groups, rule = self._of_host(host)
        if ask is None:
            return rule
        for key, grouped in groups:
            if key.covers(ask):
                rule = grouped
                break
        field = rule.policy.group_field
        value = None if field is None else plain(ask.field(field))
        return rule if value is None else Rule(f"{rule.name} [{field}={_short(value)}]", rule.policy)

    def _find(self, host: str) -> tuple[list[tuple[HostKey, Rule]], Rule]:
        """Return the groups that a host's requests may belong to, and the rules of the rest."""
        name, port = split_host(host)
        groups: list[tuple[HostKey, Rule]] = []
        suffix = name
        while suffix:
            for key in (suffix + port, suffix) if port else (suffix,):
                groups += self._groups.get(key, ())
                if key in self._whole:
                    return groups, self._whole[key]
            suffix = "" if is_address(name) else suffix.partition(".")[2]
        return groups, Rule(name + port, self.default)

    def _policy(self, key: str, given: PolicyGiven) -> Policy:
        if isinstance(given, Policy):
            return given
        if isinstance(given, Mapping):
            return self.default.replace(**given)
        raise unusable(f"hosts[{redact.url(str(key))!r}]", given, "a Policy(...) or a mapping of its options")


def _short(value: str) -> str:
    """Return a value that may stand in a name: what is long is told apart by its digest."""
    if len(value) <= _LONGEST_VALUE:
        return value
    return f"{value[:_LONGEST_VALUE]}~{hashlib.blake2b(value.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"
