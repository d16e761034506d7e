"""Reading: pages, events and sums."""

from __future__ import annotations

import asyncio

import pytest

from comity.errors import OptionsError, StoreError
from comity.policy.units import NS
from comity.store.ids import floor
from comity.store.records import Answer, Ended, Query
from comity.testing.conformance.stage import (
    AGAIN,
    GONE,
    ORIGIN,
    REFUSED,
    Stage,
    claims,
    everything,
    known,
    new,
    send,
    submit,
    worker,
)

MINUTE = 60 * NS


class Reading:
    """What is shown is what is there."""

    async def test_pages_hold_each_delivery_once_while_others_come_and_change(self, stage: Stage) -> None:
        """The newest first."""
        async with stage.opened() as store:
            numbers = await submit(store, *(new(each) for each in range(25)))
            lease = await worker(store)
            found: list[str] = []
            cursor: str | None = None
            while True:
                page = await store.deliveries(Query(), cursor, 10)
                found.extend(each.id for each in page.deliveries)
                cursor = page.cursor
                if cursor is None:
                    break
                await submit(store, new(99))
                await send(store, lease)
            assert found == numbers[::-1]

    async def test_a_list_can_be_of_one_state_lane_time_or_reason(self, stage: Stage) -> None:
        """Or of several of these together."""
        async with stage.opened() as store:
            first = await submit(store, new(1, lane="one"), new(2, lane="two"))
            stage.advance(10 * NS)
            since = await store.now()
            late = await submit(store, new(3, lane="one"), new(4, lane="two"), new(5, lane="three"))
            lease = await worker(store)
            for ended in (GONE, AGAIN, Ended(then="completed", status=200)):
                await send(store, lease, ended)
            by_state = {
                state: [each.id for each in await everything(store, Query(state=state), 1)]
                for state in ("pending", "retrying", "completed", "failed", "cancelled")
            }
            assert {state: len(found) for state, found in by_state.items()} == {
                "pending": 2,
                "retrying": 1,
                "completed": 1,
                "failed": 1,
                "cancelled": 0,
            }
            assert [each.id for each in await everything(store, Query(reason="status"))] == by_state["failed"]
            assert [each.id for each in await everything(store, Query(since=since))] == late[::-1]
            assert [each.id for each in await everything(store, Query(until=since))] == first[::-1]
            assert [each.id for each in await everything(store, Query(lane="one"))] == [late[0], first[0]]
            assert await everything(store, Query(lane="nowhere")) == []

    async def test_a_reader_goes_on_where_it_was_after_a_crash_and_never_back(self, stage: Stage) -> None:
        """Each reader by its name; several at a moment agree on the furthest."""
        async with stage.opened() as store:
            assert await store.marked("callbacks") == 0
            await asyncio.gather(*(store.mark("callbacks", seen) for seen in (3, 7, 5)), store.mark("others", 2))
            await store.mark("callbacks", 6)
            assert (await store.marked("callbacks"), await store.marked("others")) == (7, 2)
        store = await stage.open()
        store = await stage.crash(store)
        assert await store.marked("callbacks") == 7
        await store.close()

    async def test_a_cursor_that_is_none_is_refused(self, stage: Stage) -> None:
        """It came from no page."""
        async with stage.opened() as store:
            with pytest.raises(OptionsError, match="cursor"):
                await store.deliveries(Query(), "not a cursor")

    async def test_what_one_sees_has_all_that_was_acknowledged(self, stage: Stage) -> None:
        """A read after a write sees it; the version rises with every change that can be seen."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            versions = [(await known(store, number)).version]
            lease = await worker(store)
            (claim,) = (await store.claim(lease, 1)).claims
            for call in (store.begin(claim), store.finish(claim, AGAIN), store.cancel(number), store.replay(number)):
                await call
                versions.append((await known(store, number)).version)
            assert versions == sorted(set(versions))

    async def test_events_tell_everything_in_order_and_leave_no_number_out(self, stage: Stage) -> None:
        """Also while many write at once."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            lease = await worker(store)
            await send(store, lease, AGAIN)
            await store.hasten(number)
            await send(store, lease, GONE)
            await store.replay(number)
            await store.cancel(number)
            told = [each for each in await store.events(0) if each.delivery == number]
            assert [each.kind for each in told] == ["pending", "retrying", "failed", "replayed", "cancelled"]
            assert [(each.attempt, each.status) for each in told[1:3]] == [(1, 500), (2, 410)]
            assert {each.lane for each in told} == {ORIGIN}
            await asyncio.gather(*(submit(store, new(each)) for each in range(200)))
            numbers: list[int] = []
            while part := await store.events(numbers[-1] if numbers else 0, most=50):
                numbers.extend(each.seq for each in part)
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) >= 206

    async def test_who_wants_events_of_some_kinds_gets_those_and_passes_over_the_others(self, stage: Stage) -> None:
        """`newer` tells up to which number nothing was missed."""
        async with stage.opened() as store:
            numbers = await submit(store, *(new(each) for each in range(3)))
            for number in numbers[:2]:
                await store.cancel(number)
            newest = await store.newer(0)
            assert newest == await store.last_event() == 5
            found = await store.events(0, kinds=("cancelled", "failed"))
            assert [(each.seq, each.kind, each.delivery) for each in found] == [
                (4, "cancelled", numbers[0]), (5, "cancelled", numbers[1]),
            ]  # fmt: skip
            assert [each.seq for each in await store.events(0, 1, ("cancelled",))] == [4]
            assert await store.events(newest, kinds=("pending",)) == []

    async def test_who_waits_for_an_event_is_woken_by_the_next(self, stage: Stage) -> None:
        """And returns at once when there is one."""
        async with stage.opened() as store:
            assert await store.last_event() == 0
            waiting = [asyncio.ensure_future(store.newer(0)) for _ in range(3)]
            later = asyncio.ensure_future(store.newer(1_000))
            waiting.pop().cancel()
            await asyncio.sleep(0)
            assert not any(each.done() for each in waiting)
            await submit(store)
            await asyncio.gather(*waiting)
            await store.newer(0)
            assert await store.last_event() == (await store.events(0))[-1].seq
            assert not later.done()
            later.cancel()

    async def test_attempts_are_summed_up_by_lane_and_minute(self, stage: Stage) -> None:
        """Nothing has to be counted to draw a chart."""
        async with stage.opened() as store:
            await submit(store, *(new(each) for each in range(6)))
            lease = await worker(store)
            began = await store.now() // MINUTE * MINUTE
            slow = Ended(then="completed", status=200, sent_ago=9 * NS, answered_ago=2 * NS)
            quick = Ended(then="completed", status=200, sent_ago=3 * NS, answered_ago=2 * NS)
            for ended in (slow, quick, REFUSED, GONE, Ended(then="retry", sent="no", error="no connection")):
                await send(store, lease, ended)
            rows = await store.minutes(began, began + 3 * MINUTE)
            assert {row.lane for row in rows} == {ORIGIN}
            sums = [
                sum(getattr(row, name) for row in rows) for name in ("attempts", "ok", "refused", "failed", "answered")
            ]
            assert sums == [5, 2, 1, 2, 4]
            assert max(row.time_max or 0 for row in rows) == 7 * NS
            assert sum(row.time_sum for row in rows) == 8 * NS + 2
            assert await store.minutes(began, began + 3 * MINUTE, "another lane") == []
            assert await store.minutes(began + 3 * MINUTE, began + 9 * MINUTE) == []

    async def test_no_secret_of_an_error_is_stored(self, stage: Stage) -> None:
        """Neither in the delivery nor in its attempts or events."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            error = "cannot reach https://me:hunter2@api.example/?api_key=hunter2"
            await send(store, await worker(store), Ended(then="retry", error=error, sent="no"))
            shown = repr([(await known(store, number)).error, await store.attempts(number), await store.events(0)])
            assert "hunter2" not in shown
            assert "cannot reach" in shown

    async def test_no_record_shows_what_may_be_secret(self, stage: Stage) -> None:
        """Neither the URL nor headers, body or answer."""
        async with stage.opened() as store:
            hidden = b'"hunter2"'
            request = new(url=f"{ORIGIN}/?x=hunter2", headers=hidden, body=hidden, options=hidden)
            (number,) = await submit(store, request)
            (claim,) = await claims(store, await worker(store))
            await store.begin(claim)
            answer = Answer(status=200, headers=hidden, body=hidden)
            await store.finish(claim, Ended(then="completed", status=200, answer=answer))
            shown = [request, claim, await store.get(number), await store.payload(number), await store.answer(number)]
            assert all(each is not None and "hunter2" not in repr(each) for each in shown)

    async def test_a_closed_store_says_so(self, stage: Stage) -> None:
        """Closing it twice is no error."""
        store = await stage.open()
        await store.close()
        await store.close()
        for call in (store.submit([new()]), store.get(floor(0)), store.counts()):
            with pytest.raises(StoreError, match="closed") as refused:
                await call
            assert refused.value.reason == "closed"
