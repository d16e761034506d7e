"""Crashes: whatever was acknowledged is there, and what nobody knows is said so."""

from __future__ import annotations

from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import Delivery
from comity.store.transitions import MOST_CRASHES
from comity.testing.conformance.stage import LEASE, OK, Stage, claims, everything, known, new, send, submit, worker


class Crashes:
    """The process is lost between any two calls."""

    async def test_what_was_acknowledged_is_there_after_a_crash_between_any_two_calls(self, stage: Stage) -> None:
        """NP-029, WC-05: deliveries, keys, and as many attempt rows as each delivery counts."""
        store = await stage.open()
        (number,) = await submit(store, new(1, idempotency_key="key"))
        for point in range(4):
            store = await stage.crash(store)
            stage.advance(LEASE + NS)
            await store.rescue(0)
            (found,) = await everything(store)
            assert found.id == number
            assert found.attempts == len(await store.attempts(number)) == max(0, point - 2)
            (again,) = await store.submit([new(1, idempotency_key="key")])
            assert again.outcome == "replayed"
            lease = await worker(store)
            if point >= 1:
                (claim,) = await claims(store, lease)
                if point >= 2:
                    await store.begin(claim)
                if point >= 3:
                    await store.finish(claim, OK)
        store = await stage.crash(store)
        found = await known(store, number)
        assert (found.state, found.sending) == ("completed", False)
        assert [row.decision for row in await store.attempts(number)] == ["unknown", "completed"]
        await store.close()

    async def test_an_attempt_that_was_under_way_is_unknown_and_sent_again(self, stage: Stage) -> None:
        """Once its worker's lease has run out; what was only claimed is ready as before."""
        store = await stage.open()
        sent, claimed = await submit(store, new(1), new(2))
        held = await claims(store, await worker(store))
        await store.begin(next(claim for claim in held if claim.id == sent))
        store = await stage.crash(store)
        stage.advance(LEASE + NS)
        rescued = await store.rescue(0)
        assert (rescued.leases, rescued.returned, rescued.ended) == (1, 2, 0)
        (row,) = await store.attempts(sent)
        assert (row.decision, row.sent, row.status, row.ended_at is None) == ("unknown", "maybe", None, False)
        found = await known(store, sent)
        assert (found.state, found.sending, found.crashes) == ("retrying", False, 1)
        assert (await known(store, claimed)).state == "pending"
        assert {claim.id for claim in await claims(store, await worker(store))} == {sent, claimed}
        await store.close()

    async def test_a_rescue_puts_what_was_lost_at_times_of_their_own(self, stage: Stage) -> None:
        """So that not all of it is sent in one moment."""
        async with stage.opened() as store:
            numbers = await submit(store, *(new(each) for each in range(40)))
            for claim in await claims(store, await worker(store)):
                await store.begin(claim)
            stage.advance(LEASE + NS)
            await store.rescue(10 * NS)
            now = await store.now()
            due = [(await known(store, number)).due_at for number in numbers]
            assert len(set(due)) > 20
            assert max(due) <= now + 10 * NS

    async def test_what_kills_its_worker_again_and_again_is_poison(self, stage: Stage) -> None:
        """PO-01: counted before it is sent, so it comes to an end; others are delivered."""
        async with stage.opened() as store:
            (number,) = await submit(store, new(max_attempts=100))
            for _ in range(MOST_CRASHES + 1):
                assert (await known(store, number)).state in {"pending", "retrying"}
                await lose(stage, store)
            found = await known(store, number)
            assert (found.state, found.reason, found.crashes) == ("failed", "poison", MOST_CRASHES + 1)
            (other,) = await submit(store, new(2))
            await send(store, await worker(store))
            assert (await known(store, other)).state == "completed"

    async def test_a_lost_worker_counts_as_an_attempt(self, stage: Stage) -> None:
        """PO-01: after three of three the delivery has failed, its reason the lost worker."""
        async with stage.opened() as store:
            (number,) = await submit(store, new(max_attempts=3))
            for _ in range(3):
                await lose(stage, store)
            found = await known(store, number)
            assert (found.state, found.reason, found.attempts) == ("failed", "worker lost", 3)

    async def test_an_attempt_that_ends_shows_that_the_delivery_is_no_poison(self, stage: Stage) -> None:
        """Only crashes in a row count."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            await lose(stage, store)
            (claim,) = await claims(store, await worker(store))
            assert (await known(store, number)).crashes == 1
            await store.begin(claim)
            await store.finish(claim, OK)
            assert (await known(store, number)).crashes == 0

    async def test_what_may_be_sent_once_only_is_not_sent_again_after_a_crash(self, stage: Stage) -> None:
        """Unless it had only been claimed."""
        async with stage.opened() as store:
            sent, claimed = await submit(store, new(1, mode="at_most_once"), new(2, mode="at_most_once"))
            for claim in await claims(store, await worker(store)):
                if claim.id == sent:
                    await store.begin(claim)
            stage.advance(LEASE + NS)
            assert (await store.rescue(0)).ended == 1
            found = await known(store, sent)
            assert (found.state, found.reason) == ("failed", "outcome unknown")
            assert [claim.id for claim in await claims(store, await worker(store))] == [claimed]

    async def test_a_cancelled_delivery_is_not_sent_again_after_a_crash(self, stage: Stage) -> None:
        """The attempt's outcome stays unknown."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            (claim,) = await claims(store, await worker(store))
            await store.begin(claim)
            await store.cancel(number)
            stage.advance(LEASE + NS)
            await store.rescue(0)
            found: Delivery = await known(store, number)
            assert (found.state, found.cancelling) == ("cancelled", False)

    async def test_a_rescue_leaves_alone_whoever_is_alive_and_whatever_is_done(self, stage: Stage) -> None:
        """Twice it rescues nothing the second time."""
        async with stage.opened() as store:
            numbers = await submit(store, new(1), new(2))
            lease = await worker(store)
            await send(store, lease)
            before = [(await known(store, number)).state for number in numbers]
            await claims(store, lease)
            assert (await store.rescue(0)).leases == 0
            stage.advance(LEASE + NS)
            assert (await store.rescue(0)).leases == 1
            assert (await store.rescue(0)).leases == 0
            assert [(await known(store, number)).state for number in numbers] == before == ["completed", "pending"]


async def lose(stage: Stage, store: Store) -> None:
    """Let a worker be lost in the middle of the next delivery."""
    (claim,) = await claims(store, await worker(store))
    await store.begin(claim)
    stage.advance(LEASE + NS)
    await store.rescue(0)
