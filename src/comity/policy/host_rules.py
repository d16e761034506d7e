"""HostRules: which rules hold for a host, and with whom it shares its limits.

A key of `hosts` is a host name, with or without a port; it also covers the name's subdomains, the longest match wins,
and all hosts under one key share one limiter. Any other host has a limiter of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import AddressValueError, IPv6Address

from comity import redact
from comity.policy.naming import unusable
from comity.policy.options import Policy

PolicyGiven = Policy | Mapping[str, object]
"""How a host's rules are given: a Policy, or a mapping of the options that differ from the default."""

_KEY = re.compile(r"([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")


class HostRules:
    """The rules of every host.

    Args:
        default: the rules of every host that `hosts` does not name.
        hosts: rules by host name.

    Raises:
        OptionsError: a key is no host name or names a host twice, or a value cannot be used.

    Example:
        >>> rules = HostRules(Policy(), {"deezer.com": {"rate": "50/5s"}})
        >>> rules.match("api.deezer.com")[0]
        'deezer.com'
    """

    def __init__(self, default: Policy | None = None, hosts: Mapping[str, PolicyGiven] | None = None) -> None:
        self.default = Policy() if default is None else default
        self._named: dict[str, Policy] = {}
        if hosts is not None and not isinstance(hosts, Mapping):
            raise unusable("hosts", hosts, 'a mapping such as {"example.com": {"rate": "50/5s"}}')
        for key, given in (hosts or {}).items():
            if self._named.setdefault(_key(key), policy := self._policy(key, given)) is not policy:
                raise unusable("hosts", key, reason="another key names the same host")

    @property
    def policies(self) -> list[Policy]:
        """The default rules, and those of each host."""
        return [self.default, *self._named.values()]

    def match(self, host: str) -> tuple[str, Policy]:
        """Return the name of the limiter and the rules for `host`: a name or an address, perhaps with a port."""
        name, port = _split(host)
        suffix = name
        while suffix:
            for key in (suffix + port, suffix):
                if key in self._named:
                    return key, self._named[key]
            suffix = "" if _is_address(name) else suffix.partition(".")[2]
        return name + port, self.default

    def _policy(self, key: str, given: PolicyGiven) -> Policy:
        if isinstance(given, Policy):
            return given
        if isinstance(given, Mapping):
            return self.default.replace(**given)
        raise unusable(f"hosts[{redact.url(str(key))!r}]", given, "a Policy(...) or a mapping of its options")


def _split(host: str) -> tuple[str, str]:
    """Return the name and the port (":80" or "") in one spelling: lower case, no dot for the root, IPv6 shortened."""
    name, port = host.lower(), ""
    if name.count(":") == 1 or "]:" in name:
        name, _, port = name.rpartition(":")
        port = f":{port}"
    if ":" in name:
        bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
        with suppress(AddressValueError):  # else it is no name at all, and no key can match it
            name = f"[{IPv6Address(bare).compressed}]"
    return name.removesuffix("."), port


def _is_address(name: str) -> bool:
    """Return whether a name is an IP address, which has no subdomains: no top-level domain is a number (RFC 3696, 2)."""
    return name.startswith("[") or name.rpartition(".")[2].isdigit()


def _key(key: object) -> str:
    name, port = _split(key) if isinstance(key, str) else ("", "")
    part_of_address = _is_address(name) and not name.startswith("[") and name.count(".") != 3
    if not _KEY.fullmatch(name + port) or part_of_address:
        raise unusable(
            "hosts",
            key,
            'a host name in ASCII such as "example.com", which covers its subdomains, "127.0.0.1:8471" or "[::1]:8471"',
        )
    return name + port
