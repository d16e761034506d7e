"""A delivery's life: from its submission to its end, and what people do to it on the way."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from comity.errors import LeaseLost
from comity.policy.units import NS
from comity.store.records import Answer, Ended, Query
from comity.testing.conformance.stage import (
    AGAIN,
    GONE,
    NOT_SENT,
    OK,
    ORIGIN,
    REFUSED,
    Stage,
    claims,
    known,
    new,
    send,
    submit,
    worker,
)


class Life:
    """From pending to an end."""

    async def test_a_submission_is_stored_with_all_that_came_with_it(self, stage: Stage) -> None:
        """It is there, pending, before anything is sent."""
        async with stage.opened() as store:
            (number,) = await submit(
                store, new(7, headers=b'{"a":"b"}', options=b'{"x":1}', priority=2, body=b"\0body")
            )
            found, payload = await known(store, number), await store.payload(number)
            assert (found.state, found.sending, found.attempts, found.ended_at) == ("pending", False, 0, None)
            assert (found.method, found.url, found.priority) == ("POST", f"{ORIGIN}/hook/7", 2)
            assert found.options == b'{"x":1}'
            assert payload is not None
            assert (payload.headers, payload.body) == (b'{"a":"b"}', b"\0body")
            assert await store.answer(number) is None
            (claim,) = await claims(store, await worker(store))
            assert (claim.id, claim.headers, claim.body, claim.options) == (number, b'{"a":"b"}', b"\0body", b'{"x":1}')

    async def test_an_unknown_id_is_none_everywhere(self, stage: Stage) -> None:
        """Reading it and changing it."""
        async with stage.opened() as store:
            for call in (store.get, store.payload, store.answer, store.cancel, store.hasten, store.replay):
                assert await call("no-such-id") is None
            assert await store.attempts("no-such-id") == []
            assert await store.lane("nowhere") is None
            assert await store.unblock("nowhere") is None
            assert await store.change_lane("nowhere", paused=True) is None

    async def test_three_failures_and_a_success_are_four_attempts(self, stage: Stage) -> None:
        """NP-010, NP-027, NP-028: numbered from 1, each with its status and wait; as many rows as the delivery counts."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            lease = await worker(store)
            for _ in range(3):
                assert (await send(store, lease, AGAIN)).state == "retrying"
                assert (await known(store, number)).error == "HTTP 500"
                stage.advance(10 * NS)
            answer = Answer(status=200, headers=b"[]", body=b"done", size=4, sha256=b"1" * 32)
            assert (await send(store, lease, Ended(then="completed", status=200, answer=answer))).state == "completed"
            rows, found = await store.attempts(number), await known(store, number)
            assert [(row.number, row.status) for row in rows] == [(1, 500), (2, 500), (3, 500), (4, 200)]
            assert [row.decision for row in rows] == ["retrying"] * 3 + ["completed"]
            assert all(10 * NS <= row.waited < 11 * NS for row in rows[1:])
            assert (found.state, found.attempts, found.status, found.error) == ("completed", 4, 200, None)
            assert await store.answer(number) == answer

    async def test_a_retry_comes_when_it_is_due_and_not_before(self, stage: Stage) -> None:
        """NP-033: it does not burn the time of others."""
        async with stage.opened() as store:
            await submit(store)
            lease = await worker(store)
            step = await send(store, lease, AGAIN)
            claimed = await store.claim(lease, 10)
            assert (list(claimed.claims), claimed.next_due) == ([], step.due_at)
            stage.advance(10 * NS)
            assert len(await claims(store, lease)) == 1

    async def test_a_delivery_waits_for_its_time(self, stage: Stage) -> None:
        """By `delay`, or by `run_at`."""
        async with stage.opened() as store:
            await submit(store, new(delay=5 * NS), new(run_at=await store.now() + 5 * NS))
            lease = await worker(store)
            assert list(await claims(store, lease)) == []
            stage.advance(6 * NS)
            assert len(await claims(store, lease)) == 2

    async def test_the_lower_priority_number_goes_first_until_the_other_has_aged(self, stage: Stage) -> None:
        """A minute counts as much as one step of priority."""
        async with stage.opened() as store:
            old, *_ = await submit(store, new(priority=5), new(priority=6))
            stage.advance(61 * NS)
            urgent, late = await submit(store, new(priority=3), new(priority=5))
            lease = await worker(store)
            order = []
            for _ in range(3):
                (claim,) = await claims(store, lease, 1)
                await store.begin(claim)
                await store.finish(claim, OK)
                order.append(claim.id)
            assert order[:2] == [urgent, old]
            assert order[2] != late

    async def test_what_was_meant_to_wait_does_not_pass_those_that_came_before_its_time(self, stage: Stage) -> None:
        """It ages from its time on; sent before that because somebody asked, from then."""
        async with stage.opened() as store:
            planned, hastened = await submit(store, new(delay=3600 * NS), new(delay=7200 * NS))
            stage.advance(3580 * NS)
            before = await submit(store, new(), new(priority=6))
            stage.advance(10 * NS)
            await store.hasten(hastened)
            stage.advance(20 * NS)
            after = await submit(store, new(), new(priority=4))
            lease = await worker(store)
            found = []
            for _ in range(6):
                (claim,) = await claims(store, lease, 1)
                await store.begin(claim)
                await store.finish(claim, OK)
                found.append(claim.id)
            assert found == [after[1], before[0], hastened, planned, after[0], before[1]]

    async def test_a_deadline_fails_what_was_not_sent_in_time(self, stage: Stage) -> None:
        """At the claim, while it waits, and where a retry would come too late."""
        async with stage.opened() as store:
            soon = await store.now() + 5 * NS
            numbers = await submit(store, new(deadline=soon), new(delay=3600 * NS, deadline=soon))
            lease = await worker(store)
            assert (await send(store, lease, AGAIN)).reason == "deadline"
            numbers += await submit(store, new(deadline=soon))
            stage.advance(6 * NS)
            assert list(await claims(store, lease)) == []
            assert await store.expire() == 1
            assert await store.expire() == 0
            found = [await known(store, number) for number in numbers]
            assert [(each.state, each.reason) for each in found] == [("failed", "deadline")] * 3

    async def test_what_may_be_sent_once_only_is_sent_again_only_when_that_is_sure(self, stage: Stage) -> None:
        """After a refusal by rate, or when nothing was sent; not after a failure in the middle."""
        async with stage.opened() as store:
            (number,) = await submit(store, new(mode="at_most_once"))
            lease = await worker(store)
            for ended in (REFUSED, NOT_SENT):
                assert (await send(store, lease, ended)).state == "retrying"
                stage.advance(10 * NS)
            await send(store, lease, Ended(then="retry", sent="maybe", error="lost"))
            found = await known(store, number)
            assert (found.state, found.reason, found.attempts) == ("failed", "outcome unknown", 3)

    async def test_refusals_are_counted_apart(self, stage: Stage) -> None:
        """Of five sends three were refused, so two are attempts."""
        async with stage.opened() as store:
            await submit(store)
            lease = await worker(store)
            for ended in (REFUSED, AGAIN, AGAIN, REFUSED, REFUSED):
                await send(store, lease, ended)
                stage.advance(10 * NS)
            (claim,) = await claims(store, lease)
            assert (claim.attempts, claim.refusals, claim.refusals_in_a_row) == (2, 3, 2)

    async def test_claims_that_were_given_back_count_for_nothing(self, stage: Stage) -> None:
        """Also when the attempt's row stood already: nothing was sent."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            lease = await worker(store)
            assert await store.give_back(await claims(store, lease)) == 1
            (claim,) = await claims(store, lease)
            await store.begin(claim)
            assert await store.give_back([claim], wait=5 * NS, error="no key; see https://me:pw@h/") == 1
            assert (await known(store, claim.id)).last_error == "no key; see https://***@h/"
            assert await store.give_back([claim]) == 0
            assert list(await claims(store, lease)) == []
            stage.advance(5 * NS)
            (claim,) = await claims(store, lease)
            assert claim.attempts == 0
            assert [(row.sent, row.decision) for row in await store.attempts(number)] == [("no", "unsent")]

    async def test_a_cancelled_delivery_is_not_sent(self, stage: Stage) -> None:
        """Before it is claimed, between claim and send, and while it waits to be sent again."""
        async with stage.opened() as store:
            numbers = await submit(store, new(1), new(2), new(3))
            lease = await worker(store)
            await send(store, lease, AGAIN)
            claim, _ = await claims(store, lease)
            for number in numbers:
                assert await store.cancel(number) is not None
            with pytest.raises(LeaseLost):
                await store.begin(claim)
            stage.advance(60 * NS)
            assert list(await claims(store, lease)) == []
            assert {(await known(store, number)).state for number in numbers} == {"cancelled"}

    async def test_cancelling_what_is_being_sent_prevents_a_retry_and_denies_no_success(self, stage: Stage) -> None:
        """The worker learns of it when it renews its lease, and goes on."""
        async with stage.opened() as store:
            first, second, third = await submit(store, new(1), new(2), new(3))
            lease = await worker(store)
            held = await claims(store, lease)
            for claim in held:
                await store.begin(claim)
            for number in (first, second):
                found = await store.cancel(number)
                assert found is not None
                assert (found.state, found.sending, found.cancelling) == ("pending", True, True)
            assert sorted((await store.renew(lease)).cancelling) == sorted([first, second])
            steps = [await store.finish(claim, ended) for claim, ended in zip(held, (AGAIN, OK, OK), strict=True)]
            assert [step.state for step in steps] == ["cancelled", "completed", "completed"]
            assert [(await known(store, number)).state for number in (first, second, third)] == [
                "cancelled",
                "completed",
                "completed",
            ]

    async def test_an_end_stands(self, stage: Stage) -> None:
        """Cancelling or hastening what came to an end changes nothing."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            await send(store, await worker(store))
            before = await known(store, number)
            assert await store.cancel(number) == before
            assert await store.hasten(number) == before

    async def test_a_hastened_delivery_is_due_at_once(self, stage: Stage) -> None:
        """It need not wait for its retry."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            lease = await worker(store)
            await send(store, lease, AGAIN)
            await store.hasten(number)
            assert [claim.id for claim in await claims(store, lease)] == [number]

    async def test_a_replay_is_the_same_delivery_again(self, stage: Stage) -> None:
        """Listed as failed with its attempts; then the same id, new attempts behind the old ones."""
        async with stage.opened() as store:
            (number,) = await submit(store, new(max_attempts=2))
            lease = await worker(store)
            await send(store, lease, AGAIN)
            stage.advance(10 * NS)
            await send(store, lease, replace(GONE, answer=Answer(status=410)))
            assert await store.answer(number) is not None
            (listed,) = (await store.deliveries(Query(state="failed"))).deliveries
            assert (listed.id, listed.error, listed.reason, listed.attempts) == (number, "HTTP 410", "status", 2)
            again = await store.replay(number)
            assert again is not None
            assert (again.id, again.state, again.ended_at, again.error) == (number, "pending", None, None)
            assert await store.answer(number) is None
            (claim,) = await claims(store, lease)
            assert (claim.id, claim.attempts) == (number, 0)
            assert await store.begin(claim) == 3
            await store.finish(claim, OK)
            assert [row.number for row in await store.attempts(number)] == [1, 2, 3]
            assert await store.replay("another") is None

    async def test_replays_of_one_delivery_that_come_together_are_one(self, stage: Stage) -> None:
        """Each of those who asked for it is answered the same, and it happened once."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            await store.cancel(number)
            seen = await store.last_event()
            answers = await asyncio.gather(*(store.replay(number) for _ in range(5)))
            assert [answer and answer.state for answer in answers] == ["pending"] * 5
            assert [event.kind for event in await store.events(seen)] == ["replayed"]
            assert (await store.counts()).pending == 1

    async def test_a_replay_leaves_alone_what_is_alive(self, stage: Stage) -> None:
        """And drops a deadline that has passed."""
        async with stage.opened() as store:
            alive, late = await submit(store, new(1), new(2, deadline=await store.now() + NS))
            before = await known(store, alive)
            assert await store.replay(alive) == before
            stage.advance(2 * NS)
            assert await store.expire() == 1
            again = await store.replay(late)
            assert again is not None
            assert again.deadline is None

    async def test_many_are_replayed_a_part_at_a_time(self, stage: Stage) -> None:
        """Those that match, each once."""
        async with stage.opened() as store:
            await submit(store, *(new(each) for each in range(12)))
            lease = await worker(store)
            for _ in range(10):
                await send(store, lease, GONE)
            await send(store, lease)
            counts, cursor = [], None
            while True:
                part = await store.replay_all(Query(state="failed", reason="status"), cursor, most=4)
                counts.append(part.count)
                cursor = part.cursor
                if cursor is None:
                    break
            assert counts == [4, 4, 2]
            totals = await store.counts()
            assert (totals.pending, totals.completed, totals.failed) == (11, 1, 0)
