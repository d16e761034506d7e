"""Hosts: the gates of one client, made when a host is first seen and forgotten when they hold nothing worth keeping."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from comity.engine.clock import MONOTONIC, Clock
from comity.engine.fork import restart_in_children
from comity.engine.gate import Gate
from comity.engine.memory import Memory
from comity.engine.observer import Observe, observer
from comity.engine.stats import Stats
from comity.policy.host_key import Ask
from comity.policy.host_rules import HostRules, PolicyGiven
from comity.policy.limiter import HostLimiter
from comity.policy.memory import recall, remember
from comity.policy.options import Policy
from comity.policy.turns import Turns
from comity.policy.units import integer

SWEEP_AT = 1024
"""From so many hosts on, idle ones are looked for and forgotten: when their number has doubled, or ..."""

SWEEP_EVERY = 100_000
"""... after so many ns for each of them, so that a sweep takes up less than a hundredth of the time."""


class Hosts:
    """The limiters of one client.

    Args:
        default, hosts: the rules; see `HostRules`.
        max_connections: requests in flight over all hosts; when it is reached, hosts take turns. None: no bound.
        clock: what time it is.
        observe: called with every `Event`; what it raises is logged and goes no further.
        memory: where what is learned is kept for the next process.

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
        memory: Memory | None = None,
    ) -> None:
        self._memory = memory
        self.rules = HostRules(default, hosts)
        self.clock, self.observe = clock, observer(observe)
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

    def gate(self, host: str, ask: Ask | None = None) -> Gate:
        """Return the gate of a request; it is kept until `calls` is counted down.

        Args:
            host: a name or an address, perhaps with a port.
            ask: the request, which decides where a host's requests are grouped.
        """
        with self._lock:
            gate = self._by_host.get(host) or self._make(host, ask)
            gate.calls += 1
            return gate

    def stats(self) -> Stats:
        """Return the state of every host at this moment."""
        with self._lock:
            now = self.clock.now()
            hosts = {name: gate.tally.stats(gate.core, now) for name, gate in self._gates.items()}
        return Stats.of(hosts, unseen=self.rules.default.concurrency, bound=self._bound)

    def remember(self) -> None:
        """Write down what was learned, if there is a memory.

        Raises:
            StoreError: it cannot be written.
        """
        if self._memory is None:
            return
        with self._lock:
            self._keep(self._gates)
        self._memory.save(self.clock.wall())

    def close(self) -> None:
        """Refuse everybody who waits or comes."""
        with self._lock:
            self._closed = True
            gates = list(self._gates.values())
        for gate in gates:
            gate.close()

    def _make(self, host: str, ask: Ask | None) -> Gate:
        now = self.clock.now()
        known = max(len(self._by_host), len(self._gates))
        if known >= self._sweep_at or (known >= SWEEP_AT and now >= self._sweep_after):
            self._sweep(now)
        name, policy = self.rules.match(host, ask)
        gate = self._gates.get(name)
        if gate is None:
            wall = self.clock.wall()
            core = HostLimiter(policy, now, turns=self._turns, name=name, wall_offset=wall - now)
            if self._memory is not None and (kept := self._memory.hosts.get(name)) is not None:
                recall(core, kept, now, wall)
            gate = self._gates[name] = Gate(core, self.clock, self._lock, self._turn)
            if self._closed:
                core.close()
        if not self.rules.grouped(host):
            self._by_host[host] = gate
        return gate

    def _turn(self) -> Gate | None:
        name = self._turns.next() if self._turns else None
        return None if name is None else self._gates[str(name)]

    def _sweep(self, now: int) -> None:
        """Forget the limiters that hold nothing worth keeping; under the lock."""
        idle = {name: gate for name, gate in self._gates.items() if not gate.calls and gate.core.idle(now)}
        self._keep(idle)
        self._gates = {name: gate for name, gate in self._gates.items() if name not in idle}
        self._by_host = {}
        self._sweep_at = max(SWEEP_AT, 2 * len(self._gates))
        self._sweep_after = now + SWEEP_EVERY * self._sweep_at

    def _keep(self, gates: Mapping[str, Gate]) -> None:
        """Hand what gates know to the memory."""
        if self._memory is not None:
            now, wall = self.clock.now(), self.clock.wall()
            self._memory.keep({name: remember(gate.core, now, wall) for name, gate in gates.items()})
