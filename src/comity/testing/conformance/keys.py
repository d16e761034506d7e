"""Idempotency keys: the second request with a key is the first one again, or refused."""

from __future__ import annotations

import asyncio

from comity.policy.units import NS
from comity.store.records import Retention
from comity.testing.conformance.stage import ORIGIN, Stage, everything, new, send, submit, worker


class Keys:
    """One delivery for each key."""

    async def test_the_same_key_and_request_replay_the_first_answer(self, stage: Stage) -> None:
        """While it waits, while it is sent, and when it is done."""
        async with stage.opened() as store:
            request = new(1, idempotency_key="key")
            (first,) = await store.submit([request])
            assert first.outcome == "created"
            (again,) = await store.submit([request])
            assert (again.id, again.outcome, again.state) == (first.id, "replayed", "pending")
            await send(store, await worker(store))
            (again,) = await store.submit([request])
            assert (again.id, again.outcome, again.state) == (first.id, "replayed", "completed")
            assert again.created_at == first.created_at

    async def test_a_delivery_may_bring_its_own_fingerprints(self, stage: Stage) -> None:
        """The first is stored, and any of them tells it again, whatever is stored beside it differs."""
        async with stage.opened() as store:
            (first,) = await store.submit([new(1, idempotency_key="key", fingerprints=(b"a", b"b"))])
            (again,) = await store.submit([new(2, idempotency_key="key", fingerprints=(b"c", b"a"))])
            assert (again.id, again.outcome) == (first.id, "replayed")
            (other,) = await store.submit([new(1, idempotency_key="key", fingerprints=(b"b",))])
            assert other.outcome == "conflict"
            plain = new(3, idempotency_key="plain")
            (first,) = await store.submit([plain])
            (again,) = await store.submit([new(4, idempotency_key="plain", fingerprints=(b"d", plain.fingerprint))])
            assert (again.id, again.outcome) == (first.id, "replayed")

    async def test_the_same_key_with_another_request_is_a_conflict(self, stage: Stage) -> None:
        """Nothing is stored of it; the rest of the batch is."""
        async with stage.opened() as store:
            (first,) = await store.submit([new(1, idempotency_key="key")])
            found = await store.submit([new(2, idempotency_key="key"), new(3), new(1, idempotency_key="other")])
            assert [each.outcome for each in found] == ["conflict", "created", "created"]
            assert found[0].id == first.id
            assert len(await everything(store)) == 3

    async def test_of_many_with_one_key_at_one_moment_one_creates(self, stage: Stage) -> None:
        """And a request without a key is always a new one."""
        async with stage.opened() as store:
            request = new(1, idempotency_key="key")
            found = await asyncio.gather(*(store.submit([request]) for _ in range(40)))
            assert sorted(each.outcome for (each,) in found) == ["created", *["replayed"] * 39]
            assert len({each.id for (each,) in found}) == 1
            assert len(set(await submit(store, new(1), new(1)))) == 2

    async def test_no_more_are_alive_than_may_be(self, stage: Stage) -> None:
        """As many as fit are stored, those that a transaction brings included; an end makes room."""
        async with stage.opened() as store:
            found = await store.submit([new(n, lane=f"{n}") for n in range(4)], 3)
            assert [each.outcome for each in found] == ["created"] * 3 + ["full"]
            at_once = await asyncio.gather(*(store.submit([new(n)], 3) for n in range(5)), store.submit([new(9)]))
            assert [each.outcome for (each,) in at_once] == ["full"] * 5 + ["created"]
            lease = await worker(store)
            for _ in range(2):
                await send(store, lease)
            found = await store.submit([new(5), new(6)], 3)
            assert [each.outcome for each in found] == ["created", "full"]
            assert (await store.counts()).pending == 3

    async def test_a_used_key_is_answered_though_there_is_no_room(self, stage: Stage) -> None:
        """And one that found no room is not used."""
        async with stage.opened() as store:
            request, other = new(1, idempotency_key="key"), new(2, idempotency_key="other")
            (first,) = await store.submit([request], 1)
            found = await store.submit([request, new(3, idempotency_key="key"), other, other], 1)
            assert [each.outcome for each in found] == ["replayed", "conflict", "full", "full"]
            assert found[0].id == first.id
            (made,) = await store.submit([new(4, idempotency_key="other")], 2)
            assert made.outcome == "created"

    async def test_what_is_refused_or_was_submitted_before_makes_no_lane(self, stage: Stage) -> None:
        """A client that tries again and again while there is no room would leave one for each new host."""
        async with stage.opened() as store:
            first = new(1, idempotency_key="key")
            await store.submit([first])
            again = new(1, idempotency_key="key", lane="again", fingerprints=(first.fingerprint,))
            other = new(2, idempotency_key="key", lane="other")
            found = await store.submit([again, other, new(3, origin="https://other:443"), new(4, lane="full")], 1)
            assert [each.outcome for each in found] == ["replayed", "conflict", "full", "full"]
            assert [lane.key for lane in await store.lanes()] == [ORIGIN]
            assert [origin.name for origin in await store.origins()] == [ORIGIN]

    async def test_a_key_outlives_its_delivery_and_has_an_age_of_its_own(self, stage: Stage) -> None:
        """Until it is pruned it says what it stood for."""
        async with stage.opened() as store:
            request = new(1, idempotency_key="key")
            (first,) = await store.submit([request])
            await send(store, await worker(store))
            stage.advance(10 * NS)
            await store.prune(Retention(completed=NS, keys=60 * NS))
            (again,) = await store.submit([request])
            assert (again.id, again.outcome, again.state) == (first.id, "replayed", None)
            stage.advance(60 * NS)
            assert (await store.prune(Retention(keys=60 * NS))).keys == 1
            (other,) = await store.submit([request])
            assert other.outcome == "created"
            assert other.id != first.id
