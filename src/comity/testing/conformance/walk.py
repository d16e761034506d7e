"""Walk: random calls, crashes among them, and what must hold after each of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from comity.errors import LeaseLost
from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import ENDS, Claim, Delivery, Lease, Query, Retention
from comity.store.schedules import NewSchedule, NextRun
from comity.testing.conformance.stage import LEASE, ORIGIN, OUTCOMES, Stage, everything, new

CALLS = (
    ("submit", 8), ("claim", 8), ("begin", 8), ("finish", 8), ("give_back", 1), ("cancel", 2), ("replay", 1), ("hasten", 1),
    ("expire", 1), ("prune", 1), ("advance", 4), ("renew", 3), ("rescue", 2), ("crash", 1), ("pause", 1), ("hold", 1),
    ("leave", 1), ("start", 1), ("go_on", 3), ("toggle", 1),
)  # fmt: skip
SEEDS = range(6)
STEPS = 150


@dataclass
class _Known:
    """What the walk has been told."""

    acknowledged: set[str] = field(default_factory=set)
    pruned: int = 0
    ended: dict[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    lease: Lease | None = None
    events: int = 0


class Walk:
    """Nothing is lost and nothing counted wrong, whatever is called when."""

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_whatever_is_called_when_the_store_tells_the_truth(self, stage: Stage, seed: int) -> None:
        """NP-028, NP-029, WC-05: as many rows as attempts, counts as rows, ends that stand, nothing acknowledged lost."""
        draw = random.Random(seed)
        names, weights = zip(*CALLS, strict=True)
        store, told = await stage.open(), _Known()
        for step in range(STEPS):
            name = draw.choices(names, weights)[0]
            if name == "crash":
                store = await stage.crash(store)
            else:
                with suppress(LeaseLost):
                    await getattr(self, f"_{name}")(stage, store, told, draw)
            if step % 15 == 0 or name == "crash":
                await self._check(store, told)
        await store.close()

    async def _submit(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        key = draw.choice([None, f"key{draw.randrange(5)}"])
        found = await store.submit(
            [
                new(
                    0 if key else draw.randrange(1000),
                    lane=draw.choice([None, "one", "two"]) if key is None else None,
                    priority=5 if key else draw.randrange(10),
                    mode=draw.choice(["at_least_once", "at_most_once"]) if key is None else "at_least_once",
                    delay=draw.choice([0, 0, 5 * NS]) if key is None else 0,
                    max_attempts=3,
                    idempotency_key=key,
                )
            ]
        )
        told.acknowledged.update(each.id for each in found if each.outcome == "created")

    async def _claim(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        if told.lease is None:
            told.lease = await store.register("walk", LEASE)
        try:
            await store.own(told.lease, 10)
            told.claims.extend((await store.claim(told.lease, draw.randrange(1, 12))).claims)
        except LeaseLost:
            told.lease = None

    async def _begin(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        if told.claims:
            await store.begin(draw.choice(told.claims))

    async def _finish(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        if told.claims:
            await store.finish(draw.choice(told.claims), draw.choice(OUTCOMES))

    async def _give_back(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        await store.give_back(draw.sample(told.claims, min(3, len(told.claims))), draw.choice([0, NS]))

    async def _cancel(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        await store.cancel(self._any(told, draw))

    async def _hasten(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        await store.hasten(self._any(told, draw))

    async def _replay(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        number = self._any(told, draw)
        told.ended.pop(number, None)
        await store.replay(number)

    async def _expire(self, _stage: Stage, store: Store, _told: _Known, _draw: random.Random) -> None:
        await store.expire()

    async def _prune(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        ages = {state: draw.choice([60 * NS, 3600 * NS]) for state in ENDS}
        told.pruned += (await store.prune(Retention(**ages), draw.randrange(1, 10))).deliveries

    async def _advance(self, stage: Stage, _store: Store, _told: _Known, draw: random.Random) -> None:
        stage.advance(draw.choice([NS, 5 * NS, 11 * NS]))

    async def _renew(self, _stage: Stage, store: Store, told: _Known, _draw: random.Random) -> None:
        if told.lease is not None:
            await store.renew(told.lease)

    async def _rescue(self, stage: Stage, store: Store, _told: _Known, draw: random.Random) -> None:
        stage.advance(draw.choice([0, LEASE]))
        await store.rescue(draw.choice([0, NS]))

    async def _pause(self, _stage: Stage, store: Store, _told: _Known, draw: random.Random) -> None:
        await store.change_lane(draw.choice(["one", "two"]), paused=draw.choice([True, False]))

    async def _hold(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        if told.lease is not None:
            await store.hold(told.lease, ORIGIN, pause=draw.choice([0, NS]), block=draw.choice([0, 3 * NS]))

    async def _start(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        run = new(0, max_attempts=3)
        first = await store.now() + draw.choice([0, 5 * NS])
        schedule = NewSchedule(run=run, cron="", overlap=draw.choice(["allow", "skip"]), first_at=first)
        told.acknowledged.update(each.id for each in await store.submit([schedule]))

    async def _go_on(self, _stage: Stage, store: Store, told: _Known, draw: random.Random) -> None:
        due = (await store.due_schedules()).schedules
        now = await store.now()
        runs = [NextRun(schedule=each.id, before=each.next_at, at=max(now, each.next_at) + NS) for each in due]
        assert await store.advance(draw.choices(runs, k=3) if runs else []) == len(due) or len(due) > 1
        told.acknowledged.update(each.latest for each in await store.schedules())

    async def _toggle(self, _stage: Stage, store: Store, _told: _Known, draw: random.Random) -> None:
        for each in await store.schedules():
            await store.change_schedule(each.id, paused=draw.choice([True, False]))

    async def _leave(self, _stage: Stage, store: Store, told: _Known, _draw: random.Random) -> None:
        if told.lease is not None:
            await store.disown(told.lease, [ORIGIN])

    def _any(self, told: _Known, draw: random.Random) -> str:
        return draw.choice(sorted(told.acknowledged) or ["none"])

    async def _check(self, store: Store, told: _Known) -> None:
        found = await everything(store)
        here = {each.id: each for each in found}
        assert len(here) == len(found)
        assert here.keys() <= told.acknowledged
        assert len(told.acknowledged) - len(here) == told.pruned
        for each in found:
            rows = await store.attempts(each.id)
            assert [row.number for row in rows] == list(range(1, each.attempts + 1))
            assert [row.number for row in rows if row.decision == "sending"] == (
                [each.attempts] if each.sending else []
            )
            assert (each.ended_at is not None) == (each.state in ENDS)
            assert told.ended.get(each.id, each.state) == each.state
            if each.state in ENDS:
                told.ended[each.id] = each.state
        told.ended = {number: state for number, state in told.ended.items() if number in here}
        await self._check_schedules(store, here)
        await self._check_counts(store, Counter(each.state for each in found))
        numbers = [each.seq for each in await store.events(told.events, most=10_000)]
        assert numbers == list(range(told.events + 1, told.events + 1 + len(numbers)))
        told.events += len(numbers)

    async def _check_schedules(self, store: Store, here: Mapping[str, Delivery]) -> None:
        due = {each.id for each in (await store.due_schedules()).schedules}
        for each in await store.schedules():
            if not each.paused and each.id not in due:
                run = here[each.latest]
                # It waits for its time; or it is alive, and no other is to be.
                assert (run.state, run.due_at) == ("pending", each.next_at) or each.overlap == "skip"
                assert run.state not in ENDS

    async def _check_counts(self, store: Store, states: Counter[str]) -> None:
        totals = await store.counts()
        assert {state: getattr(totals, state) for state in (*ENDS, "pending", "retrying")} == {
            state: states[state] for state in (*ENDS, "pending", "retrying")
        }
        for lane in await store.lanes():
            listed = Counter(each.state for each in await everything(store, Query(lane=lane.key)))
            assert {state: getattr(lane.counts, state) for state in listed} == dict(listed)
