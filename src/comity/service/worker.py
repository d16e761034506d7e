"""Worker: claims deliveries for its free slots and sends them on their way, under the limits of the origins that it owns.

Everything that it holds hangs on a lease, which it renews long before it runs out. When the lease is lost all the same (the
process stood still, the store was out of reach), whatever it has under way is cut short and it begins anew with another:
the store refuses what a late worker says, so nothing that it still does changes anything.

A store that does not take part for a while is waited for, and cuts nothing short: the heartbeat alone decides when the lease
is lost.

Any number of workers, in any number of processes, share a store that serves several.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from comity.errors import LeaseLost, OptionsError, StoreError
from comity.policy.budget import RetryBudget
from comity.policy.host_key import HostKey
from comity.policy.host_rules import HostRules, PolicyGiven
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.errand import Cut, Errand, Setting
from comity.service.log import log
from comity.service.origins import Origins
from comity.service.outage import Outage
from comity.service.supervisor import leaves
from comity.store.records import Event, EventKind, Lease

_MOST_ORIGINS = 200
"""So many origins are taken at a time."""

_PAGE = 1000

_HEEDED: tuple[EventKind, ...] = ("cancelling", "lane.limits", "lane.paused", "lane.ordered", "origin.unblocked")
"""What others say to a worker; of work there is news in any other event."""

_REST = 0.2
"""So many seconds after a refusal the store is asked again."""

_LAST_WORDS = 5.0
"""So many seconds a store has to take what a worker says that ends."""

DEFAULT = Policy(retry_budget=RetryBudget(empty="defer"))
"""How an origin is treated that nobody set limits for."""


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works. Lengths are ns.

    Args:
        slots: deliveries that it holds at a time.
        lease: how long what it holds stays its own when it falls silent.
        policy: how to treat origins that nobody set limits for.
        hosts: how to treat those of some hosts: keys cover a host and its subdomains, and the longest match wins, as in
            `AsyncClient`. Each origin has limits of its own, though, and there are none for parts of a host.
        poll: how often it looks for work when nothing tells it of any.
        sweep: how often it gives up origins that have nothing to do.
        balance: how often it gives up origins beyond its fair share.

    Raises:
        OptionsError: a number is not above 0, or `hosts` cannot be used.
    """

    slots: int = 100
    lease: int = 30 * NS
    policy: Policy = DEFAULT
    hosts: Mapping[str, PolicyGiven] = {}
    poll: int = NS
    sweep: int = 60 * NS
    balance: int = 10 * NS

    def __post_init__(self) -> None:
        for name in ("slots", "lease", "poll", "sweep", "balance"):
            if (value := getattr(self, name)) <= 0:
                raise OptionsError(name, value, f"more than 0{'' if name == 'slots' else ' ns'}")
        for key in self.hosts:
            if HostKey(key).conditional:
                raise OptionsError("hosts", key, "a whole host; deliveries to a part of one are limited by a lane")
        self.rules()

    def rules(self) -> HostRules:
        """Return the rules of all hosts.

        Raises:
            OptionsError: a key or a value cannot be used.
        """
        return HostRules(self.policy, self.hosts)


class Worker:
    """One of them.

    Args:
        setting: what its errands have in common.
        options: how it works.
        name: what its leases are called.
    """

    def __init__(self, setting: Setting, options: WorkerOptions | None = None, *, name: str | None = None) -> None:
        self._setting, self._options = setting, options or WorkerOptions()
        self._store, self._clock = setting.store, setting.clock
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._wake, self._caught_up = asyncio.Event(), asyncio.Event()
        self._errands: dict[str, Errand] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._grace: float | None = None
        self._outage = Outage(f"worker {self._name}")
        self._lease: Lease | None = None
        self._lasts_until = self._shift = 0
        self._due = self._seen = self._newest = 0

    @property
    def held(self) -> int:
        """How many deliveries it holds."""
        return len(self._errands)

    async def run(self) -> None:
        """Work until it is cancelled or `drain` is called.

        Raises:
            StoreError: the store does not take part.
        """
        try:
            while self._grace is None:
                await self._register()
                try:
                    await self._work()
                except LeaseLost as lost:
                    log.warning("worker %s begins anew: %s", self._name, lost)
                    await self._cut_all("lost")
        finally:
            await self._wind_up()

    def drain(self, within: float) -> None:
        """Claim no more, let attempts under way end within so many seconds, and give back the rest; then `run` returns.

        What is cut short is sent again later, as its mode allows.
        """
        self._grace = within
        self._wake.set()

    async def _wind_up(self) -> None:
        """Leave nothing in hand: what was not sent goes back, and the lease ends, if the store takes part within so long."""
        await self._cut_all("stopped", _LAST_WORDS)
        await self._cut_all("lost")
        lease, self._lease = self._lease, None
        if lease is not None:
            with suppress(StoreError, TimeoutError):  # it runs out by itself
                async with asyncio.timeout(_LAST_WORDS):
                    await self._store.resign(lease)

    # ---- the lease ------------------------------------------------------------------------------

    async def _register(self) -> None:
        self._seen = await self._store.last_event()
        asked = self._clock.now()
        self._lease = await self._store.register(self._name, self._options.lease)
        await self._note(self._lease, asked)
        self._origins = Origins(self._store, self._options.rules(), self._clock)

    async def _note(self, lease: Lease, asked: int) -> None:
        """Remember a lease that was asked for at `asked`; it lasts from then on at least."""
        self._lease, self._lasts_until = lease, asked + lease.lasting
        self._shift = await self._store.now() - self._clock.now()

    def _standing(self) -> tuple[Lease, int]:
        assert self._lease is not None
        return self._lease, self._lasts_until

    async def _heartbeat(self) -> None:
        """Renew the lease, and cut short what is being cancelled."""
        every = self._options.lease / 3 / NS
        while True:
            await asyncio.sleep(every)
            lease, until = self._standing()
            asked = self._clock.now()
            try:
                # One that has run out already may still be renewed, see `Store.renew`.
                async with asyncio.timeout(max(self._options.lease / 10, until - asked) / NS):
                    renewal = await self._store.renew(lease)
                    await self._note(renewal.lease, asked)
            except LeaseLost:
                raise
            except (StoreError, TimeoutError) as error:
                if self._clock.now() >= self._standing()[1]:
                    said = str(error) or "no answer"
                    raise LeaseLost(f"the lease of {self._name} could not be renewed in time: {said}") from None
                log.warning("the lease of %s could not be renewed: %s", self._name, error)
                every = min(1.0, self._options.lease / 10 / NS)
                continue
            every = self._options.lease / 3 / NS
            for delivery in renewal.cancelling:
                self._cancel(delivery)

    # ---- work -----------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Do everything that hangs on one lease."""
        try:
            async with asyncio.TaskGroup() as parts:
                others = [
                    parts.create_task(part()) for part in (self._heartbeat, self._watch, self._sweep, self._balance)
                ]
                await self._claim()
                await self._drain()
                for other in others:
                    other.cancel()
        except BaseExceptionGroup as failures:
            # Itself, as a group's own words say nothing of it; a lease that was lost is the least of what can have gone wrong.
            raise min(leaves(failures), key=lambda each: isinstance(each, LeaseLost)) from None

    async def _claim(self) -> None:
        """Claim for the free slots, until it drains."""
        while self._grace is None:
            if self._failure is not None:
                raise self._failure
            self._wake.clear()
            try:
                waits = await self._look()
            except StoreError as error:
                self._outage.bear(error)
                await asyncio.sleep(_REST)  # whatever wakes, the store is away
                continue
            self._outage.over()
            with suppress(TimeoutError):
                async with asyncio.timeout(waits / NS):
                    await self._wake.wait()

    async def _look(self) -> int:
        """Heed what there is, take what there is, and return how long to wait when nothing tells of more, ns."""
        await self._catch_up()
        free, poll = self._options.slots - len(self._errands), self._options.poll
        if free <= 0:  # a slot that comes free wakes
            return poll
        if await self._take(free):
            return 0
        return min(poll, max(0, self._due - self._clock.now())) if self._due else poll

    async def _drain(self) -> None:
        for errand in list(self._errands.values()):
            if not errand.under_way:
                errand.cut("stopped")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace)

    async def _take(self, free: int) -> bool:
        """Claim what there is for so many slots; return whether there was anything."""
        lease, _ = self._standing()
        await self._origins.own(lease, _MOST_ORIGINS)
        claimed = await self._store.claim(lease, free)
        self._due = 0 if claimed.next_due is None else claimed.next_due - self._shift
        for claim in claimed.claims:
            errand = Errand(self._setting, claim, self._origins, self._standing, self._shift)
            self._errands[claim.id] = errand
            self._tasks.add(errand.task)
            errand.task.add_done_callback(self._over(claim.id, errand))
        return bool(claimed.claims)

    def _over(self, delivery: str, errand: Errand) -> Callable[[asyncio.Task[None]], None]:
        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if self._errands.get(delivery) is errand:
                del self._errands[delivery]
            if not task.cancelled() and task.exception() is not None:
                self._failure = task.exception()
            self._wake.set()

        return over

    async def _cut_all(self, why: Cut, within: float | None = None) -> None:
        """Cut short everything, and wait until it is, or so many seconds."""
        for errand in list(self._errands.values()):
            errand.cut(why)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within)

    def _cancel(self, delivery: str) -> None:
        if (errand := self._errands.get(delivery)) is not None:
            errand.cut("cancelled")

    # ---- what others say ------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Wake whoever claims when there is news: work, or somebody changed what this worker has in hand."""
        while True:
            self._caught_up.clear()
            try:
                self._newest = await self._store.newer(self._seen)
            except StoreError as error:
                self._outage.bear(error)
                await asyncio.sleep(_REST)
                continue
            self._wake.set()
            await self._caught_up.wait()

    async def _catch_up(self) -> None:
        """Heed what happened, before anything more is claimed: what is submitted after a change comes under that change."""
        newest, full = self._newest, True
        while full:
            page = await self._store.events(self._seen, _PAGE, _HEEDED)
            for event in page:
                await self._heed(event)
                self._seen = event.seq
            full = len(page) == _PAGE
        self._seen = max(self._seen, newest)  # those in between were for others
        self._caught_up.set()

    async def _heed(self, event: Event) -> None:
        match event.kind:
            case "cancelling" if event.delivery is not None:
                self._cancel(event.delivery)
            case "lane.limits" if event.lane is not None:
                await self._origins.reload(event.lane, partial(self._call_back, event.lane))
            case "lane.paused" | "lane.ordered" if event.lane is not None:
                await self._call_back(event.lane)
            case "origin.unblocked" if event.origin is not None:
                self._origins.lift(event.origin)
            case _:
                pass

    async def _call_back(self, lane: str) -> None:
        """Give back what waits for its turn in a lane, or at the origin that is called as it."""
        waiting = [
            errand
            for errand in self._errands.values()
            if lane in {errand.claim.lane, errand.claim.origin} and not errand.under_way
        ]
        tasks = [errand.cut("stopped") for errand in waiting]
        if tasks:
            await asyncio.wait(tasks)

    async def _sweep(self) -> None:
        """Give up origins that have nothing to do."""
        while True:
            await asyncio.sleep(self._options.sweep / NS)
            try:
                await self._origins.leave(self._standing()[0], self._busy())
            except StoreError as error:
                self._outage.bear(error)

    async def _balance(self) -> None:
        """Give up origins of which others have too few."""
        while True:
            await asyncio.sleep(self._options.balance / NS)
            try:
                given_up = await self._origins.share(self._standing()[0], self._busy())
            except StoreError as error:
                self._outage.bear(error)
                continue
            for origin in given_up:
                await self._call_back(origin)
            if given_up:
                log.info("worker %s left %d origins to others", self._name, len(given_up))

    def _busy(self) -> Counter[str]:
        return Counter(errand.claim.origin for errand in self._errands.values())
