"""Origins: the limiters of the origins that one worker owns, each begun with what the store knows of it.

A limiter lives in the worker that owns the origin, so a restart, or a change of hands, must not make it forget: what was sent
within the rates' windows is counted again from the attempts, and pause, block and gap stand in the origin's row, where the
owner writes them as soon as an answer teaches them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from typing import TypedDict

import msgspec

from comity.engine.async_engine import AsyncEngine
from comity.engine.clock import Clock
from comity.engine.gate import Gate
from comity.engine.hosts import Hosts
from comity.errors import OptionsError, StoreError
from comity.policy.host_rules import HostRules
from comity.policy.memory import HostMemory, recall
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.flight import Flight
from comity.service.limits import Limits
from comity.service.log import log
from comity.service.turn import UNLIMITED, lane_gate
from comity.store.base import Store
from comity.store.records import Lease, Origin


class _News(TypedDict):
    pause: int
    block: int
    gap: int


_BEYOND = 2 * NS
"""So often a worker takes what others leave alone though it has its share: one that is full or dead looks for none."""


class OwnedOrigin:
    """One of them.

    Args:
        name: the origin's.
        engine: sends under its limits.
        gate: where these limits stand.

    Attributes:
        held_by: the last answer that asked for a pause: what it taught may be written by whichever ends next.
    """

    def __init__(self, name: str, engine: AsyncEngine, gate: Gate) -> None:
        self.name, self.engine, self.gate = name, engine, gate
        # So that what was learned first is not written last.
        self.writing = asyncio.Lock()
        self.held_by: str | None = None
        self._written = self.learned

    @property
    def learned(self) -> tuple[int, int, int]:
        """Pause and block, until when on the engine's clock, ns, and gap."""
        core = self.gate.core
        return core.pause.until, core.pause.blocked_until, core.gap.learned

    def news(self) -> _News | None:
        """Return what `Store.hold` has to be told, None when nothing was learned since."""
        learned = self.learned
        if learned == self._written:
            return None
        self._written, now = learned, self.gate.clock.now()
        return {"pause": max(0, learned[0] - now), "block": max(0, learned[1] - now), "gap": learned[2]}

    def unwritten(self) -> None:
        """Take back that `news` was told: it was not written."""
        self._written = (-1, -1, -1)

    def lift(self) -> None:
        """End pause and block, as somebody said so."""

        def step(_now: int) -> None:
            self.gate.core.pause.lift()
            self.gate.core.pardon()
            self.gate.core.refresh()

        self.gate.change(step)
        self._written = self.learned

    def holds(self, part: str) -> bool:
        """Whether a part of it is held back by itself, see `Blame`."""
        return self.gate.core.blame.until(part) > self.gate.clock.now()

    def idle(self, now: int) -> bool:
        """Whether nothing is lost when it is given up."""
        return self.gate.core.idle(now)


class Origins:
    """The origins of one worker.

    Args:
        store: where they are written.
        rules: how to treat an origin that nobody set limits for.
        clock: of the limiters.
        draw: uniform in [0, 1), for the jitter of retries.
    """

    def __init__(
        self, store: Store, rules: HostRules, clock: Clock, *, draw: Callable[[], float] = random.random
    ) -> None:
        self._store, self._rules, self._clock, self._draw = store, rules, clock, draw
        self._owned: dict[str, OwnedOrigin] = {}
        self._lanes: dict[str, dict[str, Gate | None]] = {}  # by origin
        self._beyond_at = clock.now() + _BEYOND
        self._taken: list[Origin] = []  # whose limiters have not begun
        self._left: set[str] = set()  # of which the store does not know yet that they were given up
        self._flights: dict[str, set[Flight]] = {}  # by origin
        self._loading = asyncio.Lock()

    async def get(self, name: str) -> OwnedOrigin | None:
        """Return an origin, when its limits are not just being changed; None when it is not owned."""
        if self._loading.locked():
            async with self._loading:
                pass
        return self._owned.get(name)

    def __len__(self) -> int:
        return len(self._owned)

    async def own(self, lease: Lease, most: int) -> None:
        """Take up to `most` origins more, and begin their limiters; what a store that was away kept from its end comes first."""
        await self._disown(lease)
        self._taken += await self._store.own(lease, most, self._beyond())
        if not self._taken:
            return
        shift = await self._shift()
        # Side by side, as what each reads is little, and nothing is claimed before all have begun.
        begun = await asyncio.gather(*(self._begin(each, shift) for each in self._taken), return_exceptions=True)
        taken, self._taken = self._taken, []
        for origin, each in zip(taken, begun, strict=True):
            if isinstance(each, OwnedOrigin):
                self._owned[origin.name] = each
            else:
                self._taken.append(origin)
        if failed := [each for each in begun if isinstance(each, BaseException)]:
            raise failed[0]

    async def lane(self, key: str, origin: str) -> Gate | None:
        """Return the gate of a lane of an owned origin, None when it has no limits of its own.

        The limits of the lane that is called as its origin are the origin's.
        """
        if key == origin:
            return None
        gates = self._lanes.setdefault(origin, {})
        if key not in gates:
            async with self._loading:
                if key not in gates:
                    gates[key] = await self._lane_gate(key, origin)
        return gates[key]

    def depart(self, origin: str, lane: str) -> Callable[[], None]:
        """Note that a send begins; return what to call once the store has been told of its end."""
        flight = Flight(lane)
        flights = self._flights.setdefault(origin, set())
        flights.add(flight)

        def arrive() -> None:
            flights.discard(flight)
            if not flights and self._flights.get(origin) is flights:
                del self._flights[origin]
            flight.over()

        return arrive

    async def reload(self, lane: str, clear: Callable[[], Awaitable[None]]) -> None:
        """Take over the limits that were set for a lane; what is under way counts under the new ones until its answer.

        Args:
            lane: which.
            clear: takes everybody out of the old limits' queue, so that each send to come is either told of by the store by
                now or comes under the new ones.
        """
        async with self._loading:
            await clear()
            for gates in self._lanes.values():
                gates.pop(lane, None)
            found = await self._store.lane(lane) if lane in self._owned else None
            if found is not None:
                begun = await self._begin(found.origin, await self._shift())
                if lane in self._owned:  # not given up meanwhile
                    self._owned[lane] = begun

    def lift(self, name: str) -> None:
        """End pause and block of an origin, if it is owned."""
        if (owned := self._owned.get(name)) is not None:
            owned.lift()

    async def write(self, lease: Lease, owned: OwnedOrigin, why: str) -> None:
        """Write down what an origin taught, and by what, if that is new.

        Raises:
            LeaseLost: it is owned no longer.
        """
        async with owned.writing:
            news = owned.news()
            if news is not None:
                holds = news["pause"] or news["block"]
                said = owned.held_by if holds and owned.held_by is not None else why
                try:
                    await self._store.hold(lease, owned.name, **news, why=said)
                except BaseException:
                    owned.unwritten()
                    raise

    async def leave(self, lease: Lease, busy: Container[str]) -> None:
        """Give up the origins that have nothing to remember, but for the `busy` ones."""
        now = self._clock.now()
        for gates in self._lanes.values():
            for key in [key for key, gate in gates.items() if gate is None or gate.core.idle(now)]:
                del gates[key]
        await self._release(lease, [name for name, each in self._owned.items() if name not in busy and each.idle(now)])

    async def share(self, lease: Lease, busy: Mapping[str, int]) -> list[str]:
        """Give up what is over the fair share, so that another worker can have it; return what that was.

        An origin that was given up is owned by nobody until what is under way there has ended. What is a little over the
        share stays, as a change of hands costs more than it brings.

        Args:
            lease: the worker's.
            busy: how many deliveries it holds, by origin; those with the fewest are given up.
        """
        found = await self._store.share(lease)
        over = found.owned - found.fair
        if over <= found.fair // 4:
            return []
        now = self._clock.now()
        least = sorted(self._owned, key=lambda name: (busy.get(name, 0), not self._owned[name].idle(now)))
        await self._release(lease, least[:over])
        return least[:over]

    async def _release(self, lease: Lease, names: Sequence[str]) -> None:
        for name in names:
            del self._owned[name]
            self._lanes.pop(name, None)  # others may send there before it comes back
        self._left.update(names)
        await self._disown(lease)

    def _beyond(self) -> int:
        """Return how many origins to take over the fair share: now and then some, for a worker that cannot take its own."""
        now = self._clock.now()
        if now < self._beyond_at:
            return 0
        self._beyond_at = now + _BEYOND
        return 1 + len(self._owned) // 4

    async def _disown(self, lease: Lease) -> None:
        if names := sorted(self._left):
            await self._store.disown(lease, names)
            self._left.difference_update(names)

    async def _shift(self) -> int:
        """Return what the engine's clock is ahead of the store's, ns."""
        store_now = await self._store.now()
        return self._clock.now() - store_now

    async def _begin(self, origin: Origin, shift: int) -> OwnedOrigin:
        """Return an origin whose limiter knows what was sent before."""
        policy = await self._policy(origin.name, self._rules.match(host_of(origin.name)).policy)
        flights = list(self._flights.get(origin.name, ()))
        sends = await self._sends(policy, origin.name, shift, flying=bool(flights))
        hosts = Hosts(policy, max_connections=None, clock=self._clock)
        gate = hosts.gate(host_of(origin.name))
        with gate.lock:
            now, wall = self._clock.now(), self._clock.wall()
            store_now = now - shift
            gate.core.meters.recount(sends)
            memory = HostMemory(
                at=wall,
                gap=origin.gap,
                paused=max(0, origin.paused_until - store_now),
                blocked=max(0, origin.blocked_until - store_now),
            )
            recall(gate.core, memory, now, wall)
        for flight in flights:
            flight.count_in(gate)
        return OwnedOrigin(origin.name, AsyncEngine(hosts, draw=self._draw), gate)

    async def _lane_gate(self, key: str, origin: str) -> Gate | None:
        policy = await self._policy(key, UNLIMITED)
        if policy == UNLIMITED:
            return None
        gate = lane_gate(policy, key, self._clock)
        flights = list(self._flights.get(origin, ()))
        # Which of the origin's sends were the lane's is not told; all of them are the most that it can have been.
        gate.core.meters.recount(await self._sends(policy, origin, await self._shift(), flying=bool(flights)))
        for flight in flights:
            if flight.lane == key:
                flight.count_in(gate)
        return gate

    async def _sends(
        self, policy: Policy, origin: str, shift: int, *, flying: bool
    ) -> list[tuple[int, int, Mapping[str, int]]]:
        """Return what was sent to an origin within the longest window of a policy, on the engine's clock.

        With `flying` without what is under way: this worker has it itself, and knows when it is answered.
        """
        longest = max((rate.per_ns for rate in policy.rate), default=0)
        if not longest:
            return []
        now = self._clock.now()
        found = await self._store.starts(origin, now - shift - longest)
        # What lies in the future was written before the store's clock was set back, and counts as sent now: else nothing would
        # be sent until that time has come again.
        return [
            (min(each.sent_at + shift, now), min(each.answered_at + shift, now), _cost(each.cost))
            for each in found
            if not (flying and each.under_way)
        ]

    async def _policy(self, name: str, default: Policy) -> Policy:
        lane = await self._store.lane(name)
        if lane is None:
            return default
        try:
            return Limits.read(lane.limits).policy(default)
        except (OptionsError, StoreError) as error:  # checked when they were set; by another version, perhaps
            log.error("the limits of lane %s cannot be used, the default ones hold: %s", name, error)
            return default


def host_of(origin: str) -> str:
    """Return the name that the engine knows an origin by."""
    return origin.partition("://")[2]


def _cost(stored: bytes) -> Mapping[str, int]:
    return msgspec.json.decode(stored, type=dict[str, int])
