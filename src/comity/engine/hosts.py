"""Hosts: which limiter a request belongs to.

A key of `hosts` is a host name, with or without a port; it also covers the name's subdomains, the longest match wins,
and all hosts under one key share one limiter. Any other host has a limiter of its own, made when it is first seen.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import AddressValueError, IPv6Address

from comity.engine.clock import MONOTONIC, Clock
from comity.engine.fork import restart_in_children
from comity.engine.gate import Gate
from comity.engine.observer import Observe, observer
from comity.engine.stats import Stats
from comity.errors import OptionsError
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.turns import Turns
from comity.policy.units import integer

SWEEP_AT = 1024
"""From so many hosts on, idle ones are looked for and forgotten: when their number has doubled, or ..."""

SWEEP_EVERY = 100_000
"""... after so many ns for each of them, so that a sweep takes up less than a hundredth of the time."""

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
        self._named: dict[str, Policy] = {}
        for key, given in (hosts or {}).items():
            if self._named.setdefault(_key(key), policy := self._policy(key, given)) is not policy:
                raise OptionsError("hosts", key, reason="another key names the same host")
        self._bound = None if max_connections is None else integer(max_connections, "max_connections", 1)
        self._closed = False
        self.restart()
        restart_in_children(self)

    def restart(self) -> None:
        """Begin anew, in a child process."""
        self._turns = None if self._bound is None else Turns(self._bound)
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}
        self._by_host: dict[str, Gate] = {}
        self._sweep_at, self._sweep_after = SWEEP_AT, 0

    def policy(self, host: str) -> Policy:
        """Return the rules of `host`: a name or an address, perhaps with a port."""
        return self._match(host)[1]

    def gate(self, host: str) -> Gate:
        """Return the gate of `host`: a name or an address, perhaps with a port. It is kept until `calls` is counted down."""
        with self._lock:
            gate = self._by_host.get(host) or self._make(host)
            gate.calls += 1
            return gate

    def stats(self) -> Stats:
        """Return the state of every host at this moment."""
        with self._lock:
            now = self.clock.now()
            hosts = {name: gate.tally.stats(gate.core, now) for name, gate in self._gates.items()}
        return Stats.of(hosts, unseen=self.default.concurrency, bound=self._bound)

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
        now = self.clock.now()
        known = max(len(self._by_host), len(self._gates))
        if known >= self._sweep_at or (known >= SWEEP_AT and now >= self._sweep_after):
            self._sweep(now)
        name, policy = self._match(host)
        gate = self._gates.get(name)
        if gate is None:
            core = HostLimiter(policy, now, turns=self._turns, name=name)
            gate = self._gates[name] = Gate(core, self.clock, self._lock, self._turn)
            if self._closed:
                core.close()
        self._by_host[host] = gate
        return gate

    def _match(self, host: str) -> tuple[str, Policy]:
        """Return the name and the rules of the limiter for `host`."""
        name, port = _split(host)
        suffix = name
        while suffix:
            for key in (suffix + port, suffix):
                if key in self._named:
                    return key, self._named[key]
            suffix = suffix.partition(".")[2]
        return name + port, self.default

    def _turn(self) -> Gate | None:
        name = self._turns.next() if self._turns else None
        return None if name is None else self._gates[str(name)]

    def _sweep(self, now: int) -> None:
        """Forget the limiters that hold nothing worth keeping; under the lock."""
        self._gates = {name: gate for name, gate in self._gates.items() if gate.calls or not gate.core.idle(now)}
        self._by_host = {}
        self._sweep_at = max(SWEEP_AT, 2 * len(self._gates))
        self._sweep_after = now + SWEEP_EVERY * self._sweep_at


_KEY = re.compile(r"([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")


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


def _key(key: str) -> str:
    name, port = _split(str(key))
    if not _KEY.fullmatch(name + port):
        raise OptionsError(
            "hosts",
            key,
            'a host name in ASCII such as "deezer.com", which covers its subdomains, "127.0.0.1:8471" or "[::1]:8471"',
        )
    return name + port
