"""Hosts: which limiter a request belongs to.

A key of `hosts` is a host name, with or without a port; it also covers the name's subdomains, the longest match wins,
and all hosts under one key share one limiter. Any other host has a limiter of its own, made when it is first seen.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from comity.engine.clock import MONOTONIC, Clock
from comity.engine.gate import Gate
from comity.engine.observer import Observe, observer
from comity.engine.stats import Stats
from comity.errors import OptionsError
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.turns import Turns
from comity.policy.units import integer

SWEEP_AT = 1024
"""From so many limiters on, idle ones are looked for and forgotten, each time their number has doubled."""

PolicyGiven = Policy | Mapping[str, object]


class Hosts:
    """The limiters of one client.

    Args:
        default: the rules of every host that `hosts` does not name.
        hosts: rules by host name: a Policy, or a mapping of the options that differ from `default`.
        max_connections: requests in flight over all hosts; when it is reached, hosts take turns. None: no bound.
        clock: what time it is.
        observe: called with every `Event`; what it raises is logged and goes no further.

    Raises:
        OptionsError: a key is no host name, or a value cannot be used.
    """

    def __init__(
        self,
        default: Policy | None = None,
        hosts: Mapping[str, PolicyGiven] | None = None,
        *,
        max_connections: int | None = 500,
        clock: Clock = MONOTONIC,
        observe: Observe | None = None,
    ) -> None:
        self.default = Policy() if default is None else default
        self.clock, self.observe = clock, observer(observe)
        self._named = {_key(key): self._policy(key, given) for key, given in (hosts or {}).items()}
        self._turns = None if max_connections is None else Turns(integer(max_connections, "max_connections", 1))
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}
        self._by_host: dict[str, Gate] = {}
        self._sweep_at = SWEEP_AT
        self._closed = False

    def policy(self, host: str) -> Policy:
        """Return the rules of `host` ("name" or "name:port")."""
        return self._match(host)[1]

    def gate(self, host: str) -> Gate:
        """Return the gate of `host` ("name" or "name:port", lower case), kept until `gate.leave()` is called for it."""
        with self._lock:
            gate = self._by_host.get(host) or self._make(host)
            gate.calls += 1
            return gate

    def stats(self) -> Stats:
        """Return the state of every host at this moment."""
        with self._lock:
            now = self.clock.now()
            return Stats.of({name: gate.tally.stats(gate.core, now) for name, gate in self._gates.items()})

    def close(self) -> None:
        """Refuse everybody who waits or comes."""
        with self._lock:
            self._closed = True
            gates = list(self._gates.values())
        for gate in gates:
            gate.close()

    def _policy(self, key: str, given: PolicyGiven) -> Policy:
        if isinstance(given, Policy):
            return given
        if isinstance(given, Mapping):
            return self.default.replace(**given)
        raise OptionsError(f"hosts[{key!r}]", given, "a Policy(...) or a mapping of its options")

    def _make(self, host: str) -> Gate:
        if len(self._by_host) >= self._sweep_at:
            self._sweep()
        name, policy = self._match(host)
        gate = self._gates.get(name)
        if gate is None:
            core = HostLimiter(policy, self.clock.now(), turns=self._turns, name=name)
            gate = self._gates[name] = Gate(core, self.clock, self._lock, self._turn)
            gate.closed = self._closed
        self._by_host[host] = gate
        return gate

    def _match(self, host: str) -> tuple[str, Policy]:
        """Return the name and the rules of the limiter for `host`."""
        name, _, port = host.rpartition(":") if _has_port(host) else (host, "", "")
        labels = name.split(".") if not name.startswith("[") else [name]
        for start in range(len(labels)):
            suffix = ".".join(labels[start:])
            for key in (f"{suffix}:{port}", suffix) if port else (suffix,):
                if key in self._named:
                    return key, self._named[key]
        return host, self.default

    def _turn(self) -> Gate | None:
        name = self._turns.next() if self._turns else None
        return None if name is None else self._gates[str(name)]

    def _sweep(self) -> None:
        """Forget the limiters that hold nothing worth keeping; under the lock."""
        now = self.clock.now()
        self._gates = {name: gate for name, gate in self._gates.items() if gate.calls or not gate.core.idle(now)}
        self._by_host = {}
        self._sweep_at = max(SWEEP_AT, 2 * len(self._gates))


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]


def _key(key: str) -> str:
    name = str(key).strip().lower().rstrip(".")
    if not name or any(mark in name for mark in "/@?#* ") or name.startswith("."):
        raise OptionsError(
            "hosts", key, 'a host name such as "deezer.com" or "127.0.0.1:8471", which covers its subdomains'
        )
    return name
