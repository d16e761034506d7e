"""Ordered lanes: one after the other, in the order in which they were created, whatever happens to any of them."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from comity.errors import LeaseLost, OptionsError
from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import ENDS, Claim, Delivery, Ended, Lease, Query
from comity.testing.conformance.stage import (
    AGAIN,
    GONE,
    LEASE,
    OK,
    ORIGIN,
    OUTCOMES,
    Stage,
    claims,
    everything,
    new,
    submit,
    worker,
)

SEEDS = range(4)
STEPS = 120


async def line(store: Store, *options: dict[str, Any]) -> list[str]:
    """Submit to an ordered lane; return the ids."""
    return await submit(store, *(new(at, lane="line", ordered=True, **each) for at, each in enumerate(options)))


async def sent(store: Store, lease: Lease, ended: Ended = OK) -> list[str]:
    """Send all that can be claimed, one claim after the other; return the ids in order."""
    order = []
    while found := await claims(store, lease):
        for claim in found:
            await store.begin(claim)
            await store.finish(claim, ended)
            order.append(claim.id)
    return order


class Ordered:
    """Whose turn it is."""

    async def test_they_go_one_at_a_time_in_order_of_creation_whatever_their_priority(self, stage: Stage) -> None:
        """With slots for all of them there is one claim."""
        async with stage.opened() as store:
            numbers = await line(store, *({"priority": 9 - each} for each in range(6)))
            numbers += await line(store, {"idempotency_key": "key"}, {"priority": 0}, {"idempotency_key": "other"})
            lease = await worker(store)
            (claim,) = await claims(store, lease)
            assert claim.id == numbers[0]
            assert list(await claims(store, lease)) == []
            await store.begin(claim)
            assert list(await claims(store, lease)) == []
            await store.finish(claim, OK)
            assert await sent(store, lease) == numbers[1:]

    async def test_what_waits_for_its_time_holds_the_lane_and_no_other(self, stage: Stage) -> None:
        """Its delay, or its retry; and whoever claims is told when to come back."""
        async with stage.opened() as store:
            numbers = await line(store, {"delay": 20 * NS}, {}, {})
            lease = await worker(store)
            (other,) = await submit(store, new(lane="other"))
            assert await sent(store, lease) == [other]
            claimed = await store.claim(lease, 10)
            assert claimed.next_due is not None
            assert 0 < claimed.next_due - await store.now() <= 20 * NS
            stage.advance(20 * NS)
            lease = (await store.renew(lease)).lease
            (first,) = await claims(store, lease)
            await store.begin(first)
            await store.finish(first, AGAIN)
            assert await sent(store, lease) == []
            stage.advance(11 * NS)
            assert await sent(store, lease) == numbers

    async def test_any_end_lets_the_next_go(self, stage: Stage) -> None:
        """Completed, failed, cancelled while it waits or is sent, its deadline passed."""
        async with stage.opened() as store:
            late = {"delay": 50 * NS, "deadline": await store.now() + 5 * NS}
            numbers = await line(store, {}, {}, {"delay": 50 * NS}, {}, late, late, {})
            lease = await worker(store)
            for ended in (OK, GONE):
                (claim,) = await claims(store, lease)
                await store.begin(claim)
                await store.finish(claim, ended)
            assert list(await claims(store, lease)) == []
            await store.cancel(numbers[2])
            (claim,) = await claims(store, lease)
            await store.begin(claim)
            await store.cancel(claim.id)
            assert (await store.finish(claim, AGAIN)).state == "cancelled"
            assert list(await claims(store, lease)) == []
            stage.advance(6 * NS)
            assert await store.expire() == 2
            assert await sent(store, lease) == numbers[-1:]

    async def test_a_claim_that_comes_back_is_the_next_again(self, stage: Stage) -> None:
        """Given back, now or for later, or taken from a worker that was lost, by whoever owns the origin then."""
        async with stage.opened() as store:
            numbers = await line(store, {}, {"priority": 0}, {})
            lease = await worker(store)
            for wait in (0, NS):
                held = await claims(store, lease)
                assert [claim.id for claim in held] == numbers[:1]
                await store.give_back(held, wait)
            assert list(await claims(store, lease)) == []
            stage.advance(2 * NS)
            await store.resign(lease)
            lease = await worker(store, "second")
            (lost,) = await claims(store, lease)
            await store.begin(lost)
            stage.advance(LEASE + NS)
            other = await store.register("third", LEASE)
            assert list(await claims(store, other)) == []
            await store.rescue(0)
            assert await sent(store, other) == numbers
            assert len(await store.attempts(numbers[0])) == 2

    async def test_an_origin_left_with_an_attempt_under_way_waits_for_its_end(self, stage: Stage) -> None:
        """The next owner sends nothing of the lane before that."""
        async with stage.opened() as store:
            numbers = await line(store, {}, {})
            first = await worker(store)
            (claim,) = await claims(store, first)
            await store.begin(claim)
            await store.disown(first, [ORIGIN])
            second = await worker(store, "second")
            assert list(await claims(store, second)) == []
            await store.finish(claim, AGAIN)
            assert list(await claims(store, second)) == []
            stage.advance(11 * NS)
            assert await sent(store, second) == numbers

    async def test_what_is_replayed_comes_again_at_its_own_place(self, stage: Stage) -> None:
        """Before all that is younger, however long that has waited."""
        async with stage.opened() as store:
            numbers = await line(store, *({} for _ in range(4)))
            lease = await worker(store)
            assert await sent(store, lease, GONE) == numbers
            more = await line(store, {}, {})
            await store.replay(numbers[2])
            assert (await store.replay_all(Query(lane="line"), most=2)).count == 2
            assert await sent(store, lease) == [*numbers[1:], *more]
            last = await line(store, {}, {})
            (claim,) = await claims(store, lease)
            await store.begin(claim)
            await store.replay(numbers[0])
            assert list(await claims(store, lease)) == []
            await store.finish(claim, OK)
            assert await sent(store, lease) == [numbers[0], last[1]]

    async def test_a_lane_becomes_ordered_at_once_and_unordered_again(self, stage: Stage) -> None:
        """What was claimed and not sent is taken back; what is being sent ends first."""
        async with stage.opened() as store:
            numbers = await submit(store, *(new(at, lane="line", priority=9 - at) for at in range(8)))
            lease = await worker(store)
            under_way, *taken = (await store.claim(lease, 12)).claims
            assert taken
            await store.begin(under_way)
            lane = await store.change_lane("line", ordered=True)
            assert lane is not None
            assert (lane.ordered, lane.counts.held, lane.counts.ready) == (True, 1, 7)
            with pytest.raises(LeaseLost):
                await store.begin(taken[0])
            assert list(await claims(store, lease)) == []
            await store.finish(under_way, AGAIN)
            assert numbers.pop() == under_way.id
            (first,) = await claims(store, lease)
            assert first.id == numbers[0]
            await store.give_back([first])
            await store.replay(first.id)
            await store.change_lane("line", ordered=False)
            kinds = [event.kind for event in await store.events(0) if event.kind.startswith("lane.")]
            assert kinds == ["lane.ordered", "lane.unordered"]
            lane = await store.change_lane("line", ordered=False)
            assert lane is not None
            assert not lane.ordered
            assert [claim.id for claim in await claims(store, lease, 1000)] == numbers[::-1]

    async def test_what_ended_before_a_lane_was_ordered_is_replayed_in_order(self, stage: Stage) -> None:
        """It was never put in line."""
        async with stage.opened() as store:
            numbers = await submit(store, *(new(at, lane="line", priority=9 - at) for at in range(3)))
            lease = await worker(store)
            await sent(store, lease)
            await store.change_lane("line", ordered=True)
            for number in reversed(numbers):
                await store.replay(number)
            assert await sent(store, lease) == numbers

    async def test_a_submission_that_wants_order_makes_an_ordered_lane_and_is_refused_by_another(
        self, stage: Stage
    ) -> None:
        """Nothing of such a call is stored; one that does not ask stands in order all the same."""
        async with stage.opened() as store:
            await submit(store, new(1, lane="plain"))
            for call in (
                [new(2, lane="plain", ordered=True)],
                [new(3, lane="new"), new(4, lane="new", ordered=True)],
            ):
                with pytest.raises(OptionsError, match="is not an ordered one") as refused:
                    await store.submit(call)
                assert refused.value.option == "ordered"
            await submit(store, new(5, lane="line", ordered=True), new(6, lane="line"))
            assert {lane.key: lane.ordered for lane in await store.lanes()} == {"plain": False, "line": True}
            assert len(await everything(store)) == 3
            await store.change_lane("plain", ordered=True)
            await submit(store, new(2, lane="plain", ordered=True))

    async def test_lanes_that_wait_hide_no_other(self, stage: Stage) -> None:
        """However many there are, and with one slot."""
        async with stage.opened() as store:
            for lane in range(30):
                options: tuple[dict[str, Any], ...] = ({"delay": 3600 * NS}, {})
                await submit(
                    store, *(new(at, lane=f"line{lane}", ordered=True, **each) for at, each in enumerate(options))
                )
            lease = await worker(store)
            assert list(await claims(store, lease, 1)) == []
            (number,) = await submit(store, new(lane="zz"))
            assert [claim.id for claim in await claims(store, lease, 1)] == [number]

    async def test_a_paused_one_waits_until_it_is_resumed(self, stage: Stage) -> None:
        """And goes on where it was."""
        async with stage.opened() as store:
            numbers = await line(store, {}, {})
            lease = await worker(store)
            await store.change_lane("line", paused=True)
            assert await sent(store, lease) == []
            await store.change_lane("line", paused=False)
            assert await sent(store, lease) == numbers

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_whatever_is_called_when_the_next_is_the_oldest_that_is_alive(self, stage: Stage, seed: int) -> None:
        """A naive model of the lane says what a claim has to bring, crashes and changes of hands among the calls."""
        model = Model(stage, await stage.open(), random.Random(seed))
        for _ in range(STEPS):
            with suppress(LeaseLost):
                await model.step()
        assert model.claimed > STEPS / 20
        await model.store.close()


CALLS = {
    "submit": 8, "claim": 14, "begin": 8, "finish": 8, "give_back": 2, "cancel": 2, "replay": 2, "hasten": 1, "expire": 1,
    "advance": 4, "hand_over": 1, "crash": 1, "pause": 1, "turn": 1,
}  # fmt: skip


class Model:
    """One lane, known by what was told of it.

    Args:
        stage, store: where.
        draw: chooses what happens.
    """

    def __init__(self, stage: Stage, store: Store, draw: random.Random) -> None:
        self.stage, self.store, self.draw = stage, store, draw
        self.numbers: list[str] = []
        self.held: dict[str, Claim] = {}
        self.begun: set[str] = set()
        self.lease: Lease | None = None
        self.paused, self.ordered = False, True
        self.claimed = 0

    async def step(self) -> None:
        """Do anything."""
        name = self.draw.choices(list(CALLS), list(CALLS.values()))[0]
        await getattr(self, f"_{name}")()

    async def _submit(self) -> None:
        some = [
            new(
                lane="line",
                priority=self.draw.randrange(10),
                delay=self.draw.choice([0, 0, 0, 20 * NS]),
                deadline=self.draw.choice([None, None, await self.store.now() + 60 * NS]),
                idempotency_key=self.draw.choice([None, str(len(self.numbers))]),
                ordered=not self.numbers,
            )
            for _ in range(self.draw.choice([1, 1, 3]))
        ]
        # Of those with one key the second is the first one again.
        self.numbers += dict.fromkeys(await submit(self.store, *some))

    async def _claim(self) -> None:
        if self.lease is None:
            self.lease = await self.store.register("model", LEASE)
        await self.store.own(self.lease, 10)
        found = {each.id: each for each in await everything(self.store, Query(lane="line"))}
        alive = [number for number in self.numbers if found[number].state not in ENDS]
        before = await self.store.now()
        got = (await self.store.claim(self.lease, 40)).claims
        after = await self.store.now()
        self.claimed += len(got)
        if self.ordered:
            self._check(found, alive, [each.id for each in got], before, after)
        for each in got:
            assert each.id not in self.held
            self.held[each.id] = each

    def _check(self, found: dict[str, Delivery], alive: list[str], got: list[str], before: int, after: int) -> None:
        if self.paused or self.held or not alive:
            assert got == []
            return
        first = found[alive[0]]
        assert got in ([], alive[:1])
        if first.due_at > after:
            assert got == []
        elif first.due_at <= before and (first.deadline or after + 1) > after:
            assert got == alive[:1]

    async def _begin(self) -> None:
        if waiting := sorted(self.held.keys() - self.begun):
            await self.store.begin(self.held[waiting[0]])
            self.begun.add(waiting[0])

    async def _finish(self) -> None:
        if self.begun:
            number = self.draw.choice(sorted(self.begun))
            await self.store.finish(self.held[number], self.draw.choice(OUTCOMES))
            self._let_go(number)

    async def _give_back(self) -> None:
        if self.held:
            number = self.draw.choice(sorted(self.held))
            await self.store.give_back([self.held[number]], self.draw.choice([0, 5 * NS]))
            self._let_go(number)

    async def _cancel(self) -> None:
        if self.numbers:
            number = self.draw.choice(self.numbers)
            await self.store.cancel(number)
            if number not in self.begun:
                self._let_go(number)

    async def _replay(self) -> None:
        if self.numbers:
            await self.store.replay(self.draw.choice(self.numbers))

    async def _hasten(self) -> None:
        if self.numbers:
            await self.store.hasten(self.draw.choice(self.numbers))

    async def _expire(self) -> None:
        await self.store.expire()

    async def _advance(self) -> None:
        self.stage.advance(self.draw.choice([NS, 5 * NS, 11 * NS]))

    async def _hand_over(self) -> None:
        if self.lease is not None:
            if self.draw.random() < 0.5:
                await self.store.resign(self.lease)
            else:
                self.stage.advance(LEASE + NS)
                await self.store.rescue(0)
            self.lease = None
            self.held.clear()
            self.begun.clear()

    async def _crash(self) -> None:
        self.store = await self.stage.crash(self.store)
        self.stage.advance(LEASE + NS)
        await self.store.rescue(0)
        self.lease = None
        self.held.clear()
        self.begun.clear()

    async def _pause(self) -> None:
        if self.numbers:
            self.paused = not self.paused
            await self.store.change_lane("line", paused=self.paused)

    async def _turn(self) -> None:
        if self.numbers:
            self.ordered = not self.ordered
            await self.store.change_lane("line", ordered=self.ordered)
            if self.ordered:
                for number in self.held.keys() - self.begun:
                    self._let_go(number)

    def _let_go(self, number: str) -> None:
        self.held.pop(number, None)
        self.begun.discard(number)
