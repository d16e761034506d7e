"""Schedules: a run for each time, none twice, and always one that waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from comity.errors import OptionsError
from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import Delivery, Query, Retention, Submitted
from comity.store.schedules import NewSchedule, NextRun, Schedule
from comity.testing.conformance.stage import AGAIN, Stage, claims, everything, known, new, send, submit, worker

MINUTE = 60 * NS


async def start(
    store: Store, number: int = 0, *, key: str | None = None, after: int = MINUTE, **options: Any
) -> Submitted:
    """Submit a schedule whose first time is so long from now."""
    first = await store.now() + after
    run = new(number, idempotency_key=key)
    (made,) = await store.submit([NewSchedule(run=run, cron="* * * * *", first_at=first, **options)])
    assert made.outcome == "created"
    return made


async def of(store: Store, made: Submitted) -> Schedule:
    """Return a schedule that must be there."""
    assert made.schedule is not None
    found = await store.schedule(made.schedule)
    assert found is not None
    return found


async def go_on(store: Store, made: Submitted, after: int = MINUTE) -> int:
    """Make the next run, so long after the time of the newest."""
    schedule = await of(store, made)
    return await store.advance([NextRun(schedule=schedule.id, before=schedule.next_at, at=schedule.next_at + after)])


async def due(store: Store) -> list[str]:
    """Return the ids of the schedules whose next run is to be made."""
    return [each.id for each in (await store.due_schedules()).schedules]


async def runs(store: Store, made: Submitted) -> list[Delivery]:
    """Return the runs that there are, the newest first."""
    return await everything(store, Query(schedule=made.schedule))


class Schedules:
    """Runs, one after the other."""

    async def test_a_schedule_comes_with_its_first_run_which_waits_for_its_time(self, stage: Stage) -> None:
        """It is an ordinary delivery, with a key of its own."""
        async with stage.opened() as store:
            made = await start(store, 7, key="mine")
            schedule, run = await of(store, made), await known(store, made.id)
            assert (schedule.latest, schedule.paused, schedule.cron, schedule.zone) == (
                run.id,
                False,
                "* * * * *",
                "UTC",
            )
            assert (run.state, run.due_at, run.schedule) == ("pending", schedule.next_at, schedule.id)
            assert run.idempotency_key is not None
            assert run.idempotency_key.startswith(schedule.id + "/")
            payload = await store.payload(run.id)
            assert payload is not None
            assert payload.body == b"7"
            assert [(each.kind, each.delivery, each.note) for each in await store.events(0)] == [
                ("pending", run.id, None),
                ("schedule.created", run.id, schedule.id),
            ]
            (other,) = await submit(store)
            assert (await known(store, other)).schedule is None

    async def test_the_next_run_is_made_when_the_time_of_the_newest_has_come(self, stage: Stage) -> None:
        """Until then the schedule says how long that is."""
        async with stage.opened() as store:
            made = await start(store)
            waiting = await store.due_schedules()
            assert waiting.schedules == []
            assert waiting.next_in is not None
            assert 0 < waiting.next_in <= MINUTE
            stage.advance(MINUTE)
            assert await due(store) == [made.schedule]
            assert await go_on(store, made) == 1
            assert await due(store) == []
            second, first = await runs(store, made)
            assert (first.id, second.due_at - first.due_at) == (made.id, MINUTE)
            assert second.idempotency_key != first.idempotency_key
            lease = await worker(store)
            assert [claim.id for claim in await claims(store, lease)] == [first.id]

    async def test_what_is_due_comes_in_pages_or_by_id(self, stage: Stage) -> None:
        """Each schedule once, the one that waits longest first."""
        async with stage.opened() as store:
            made = []
            for _ in range(5):
                made.append((await start(store)).schedule)
                stage.advance(NS)
            stage.advance(MINUTE)
            found, after = [], None
            while True:
                page = await store.due_schedules(2, after=after)
                found += [each.id for each in page.schedules]
                if (after := page.last) is None:
                    break
            assert found == made
            assert [each.id for each in (await store.due_schedules(of=made[3])).schedules] == [made[3]]

    async def test_the_run_of_a_time_is_made_once_whoever_makes_it(self, stage: Stage) -> None:
        """Also when all of them looked at the same moment."""
        async with stage.opened() as store:
            made = await start(store)
            stage.advance(MINUTE)
            schedule = await of(store, made)
            run = NextRun(schedule=schedule.id, before=schedule.next_at, at=schedule.next_at + MINUTE)
            found = await asyncio.gather(*(store.advance([run]) for _ in range(20)), store.advance([run, run]))
            assert sorted(found) == [0] * 20 + [1]
            assert len(await runs(store, made)) == 2

    async def test_no_run_is_lost_or_made_twice_by_a_crash_between_any_two_calls(self, stage: Stage) -> None:
        """What was read before the crash may be said again after it."""
        store = await stage.open()
        made = await start(store)
        for times in range(1, 4):
            store = await stage.crash(store)
            stage.advance(MINUTE)
            schedule = await of(store, made)
            run = NextRun(schedule=schedule.id, before=schedule.next_at, at=schedule.next_at + MINUTE)
            assert await store.advance([run]) == 1
            store = await stage.crash(store)
            assert await store.advance([run]) == 0
            found = await runs(store, made)
            assert len(found) == len({each.due_at for each in found}) == times + 1
            assert (await of(store, made)).latest == found[0].id
        await store.close()

    async def test_a_key_stands_for_a_schedule_and_replays_its_first_run(self, stage: Stage) -> None:
        """Whenever that is, and when the schedule is gone; something else under the key is refused."""
        async with stage.opened() as store:
            made = await start(store, 1, key="key")
            again = NewSchedule(
                run=new(1, idempotency_key="key"), cron="* * * * *", first_at=await store.now() + 5 * MINUTE
            )
            other = NewSchedule(run=again.run, cron="*/2 * * * *", first_at=again.first_at)
            found = await store.submit([again, other, again.run])
            assert [each.outcome for each in found] == ["replayed", "conflict", "conflict"]
            assert (found[0].id, found[0].schedule, found[0].created_at) == (made.id, made.schedule, made.created_at)
            assert len(await everything(store)) == len(await store.schedules()) == 1
            assert made.schedule is not None
            await store.remove_schedule(made.schedule)
            stage.advance(MINUTE)
            await store.prune(Retention(cancelled=NS))
            (found_again,) = await store.submit([again])
            assert (found_again.id, found_again.schedule, found_again.state) == (made.id, made.schedule, None)

    async def test_of_many_schedules_with_one_key_at_one_moment_one_is_made(self, stage: Stage) -> None:
        """Beside what else is submitted."""
        async with stage.opened() as store:
            schedule = NewSchedule(
                run=new(1, idempotency_key="key"), cron="* * * * *", first_at=await store.now() + MINUTE
            )
            found = await asyncio.gather(*(store.submit([new(2), schedule, schedule]) for _ in range(10)))
            assert len({(each.id, each.schedule) for batch in found for each in batch[1:]}) == 1
            assert [each.schedule for batch in found for each in batch[:1]] == [None] * 10
            assert len(await store.schedules()) == 1
            assert len(await everything(store)) == 11

    async def test_a_schedule_needs_room_for_its_first_run(self, stage: Stage) -> None:
        """Refused, its key is free."""
        async with stage.opened() as store:
            schedule = NewSchedule(
                run=new(1, idempotency_key="key"), cron="* * * * *", first_at=await store.now() + MINUTE
            )
            assert [each.outcome for each in await store.submit([new(2), schedule], most=1)] == ["created", "full"]
            assert await store.schedules() == []
            assert [each.outcome for each in await store.submit([schedule, schedule], most=2)] == [
                "created",
                "replayed",
            ]
            assert len(await store.schedules()) == 1

    async def test_a_paused_schedule_has_no_run_that_waits(self, stage: Stage) -> None:
        """Resumed in time it makes that of the same time, else that of a later one."""
        async with stage.opened() as store:
            made = await start(store)
            assert made.schedule is not None
            paused = await store.change_schedule(made.schedule, paused=True)
            assert paused is not None
            assert (paused.paused, (await known(store, made.id)).state) == (True, "cancelled")
            stage.advance(NS)
            assert await go_on(store, made) == 0
            assert await due(store) == []
            resumed = await store.change_schedule(made.schedule, paused=False)
            assert resumed is not None
            assert not resumed.paused
            assert resumed.next_at == paused.next_at - 1
            assert await due(store) == [made.schedule]
            run = NextRun(schedule=resumed.id, before=resumed.next_at, at=paused.next_at)
            assert await store.advance([run]) == 1
            second, first = await runs(store, made)
            assert (second.state, second.due_at, second.idempotency_key) == (
                "pending",
                first.due_at,
                first.idempotency_key,
            )
            assert [each.kind for each in await store.events(2)] == [
                "cancelled", "schedule.paused", "schedule.resumed", "pending",
            ]  # fmt: skip

    @pytest.mark.parametrize("how", ["cancel", "hasten"])
    async def test_a_schedule_that_is_resumed_makes_no_run_for_a_time_that_had_one(
        self, stage: Stage, how: str
    ) -> None:
        """Whether that was sent before its time or cancelled, and whether the run of the next time was made or not."""
        async with stage.opened() as store:
            made, other = await start(store), await start(store)
            first = (await of(store, made)).next_at
            for each in (made, other):
                await getattr(store, how)(each.id)
            await go_on(store, made)
            if how == "hasten":
                lease = await worker(store)
                for _ in range(2):
                    await send(store, lease)
            for each, still in ((made, first + MINUTE - 1), (other, (await of(store, other)).next_at)):
                schedule = str(each.schedule)
                await store.change_schedule(schedule, paused=True)
                resumed = await store.change_schedule(schedule, paused=False)
                assert resumed is not None
                assert resumed.next_at == still
            assert set(await due(store)) == {made.schedule, other.schedule}

    @pytest.mark.parametrize("sent", [False, True])
    async def test_a_run_that_a_pause_cancelled_and_that_was_replayed_is_that_of_its_time(
        self, stage: Stage, sent: bool
    ) -> None:
        """Resumed, its schedule makes no other one of that time, which would have the same key."""
        async with stage.opened() as store:
            made = await start(store)
            schedule = await of(store, made)
            await store.change_schedule(schedule.id, paused=True)
            await store.replay(made.id)
            if sent:
                await send(store, await worker(store))
            resumed = await store.change_schedule(schedule.id, paused=False)
            assert resumed is not None
            assert resumed.next_at == schedule.next_at

    async def test_a_change_that_is_made_already_changes_nothing(self, stage: Stage) -> None:
        """Nor is there one of what is not there."""
        async with stage.opened() as store:
            made = await start(store)
            assert made.schedule is not None
            before = await of(store, made)
            assert await store.change_schedule(made.schedule, paused=False) == before
            for _ in range(2):
                await store.change_schedule(made.schedule, paused=True)
            assert len(await store.events(0)) == 4
            for number in ("none", made.id):
                assert await store.change_schedule(number, paused=True) is None
                assert await store.schedule(number) is None
                assert not await store.remove_schedule(number)

    async def test_a_removed_schedule_ends_with_the_run_that_waits(self, stage: Stage) -> None:
        """Runs that there were stay, and say whose they were."""
        async with stage.opened() as store:
            made = await start(store)
            stage.advance(MINUTE)
            await go_on(store, made)
            await send(store, await worker(store))
            schedule = await of(store, made)
            assert await store.remove_schedule(schedule.id)
            assert await store.schedule(schedule.id) is None
            assert await store.schedules() == []
            assert [(each.state, each.schedule) for each in await runs(store, made)] == [
                ("cancelled", schedule.id),
                ("completed", schedule.id),
            ]
            assert not await store.remove_schedule(schedule.id)
            run = NextRun(schedule=schedule.id, before=schedule.next_at, at=schedule.next_at + MINUTE)
            assert await store.advance([run]) == 0
            assert (await store.events(0))[-1].note == schedule.id

    @pytest.mark.parametrize("how", ["pause", "remove"])
    async def test_a_run_that_was_sent_goes_on_without_its_schedule(self, stage: Stage, how: str) -> None:
        """It is the affair of whoever cancels deliveries."""
        async with stage.opened() as store:
            made = await start(store)
            stage.advance(MINUTE)
            (claim,) = await claims(store, await worker(store))
            await store.begin(claim)
            assert made.schedule is not None
            if how == "pause":
                await store.change_schedule(made.schedule, paused=True)
            else:
                await store.remove_schedule(made.schedule)
            assert (await store.finish(claim, AGAIN)).state == "retrying"
            found = await known(store, made.id)
            assert (found.cancelling, found.attempts) == (False, 1)

    @pytest.mark.parametrize("how", ["cancel", "hasten"])
    async def test_when_a_run_waits_no_more_the_one_after_it_is_made(self, stage: Stage, how: str) -> None:
        """Somebody cancelled it, or had it sent before its time."""
        async with stage.opened() as store:
            made, other = await start(store), await start(store)
            await getattr(store, how)(made.id)
            assert await due(store) == [made.schedule]
            assert await go_on(store, made) == 1
            assert (await runs(store, made))[0].due_at - (await of(store, other)).next_at >= MINUTE - NS
            assert await due(store) == []

    async def test_with_skip_no_run_is_made_while_the_one_before_is_alive(self, stage: Stage) -> None:
        """With allow one is, for every time."""
        async with stage.opened() as store:
            skips, allows = await start(store, overlap="skip"), await start(store)
            stage.advance(MINUTE)
            assert await due(store) == [allows.schedule]
            await go_on(store, allows)
            lease = await worker(store)
            for _ in range(2):
                await send(store, lease)
            assert (await known(store, skips.id)).state == "completed"
            assert await due(store) == [skips.schedule]
            await go_on(store, skips)
            stage.advance(3 * MINUTE)
            await store.prune(Retention(completed=0))
            assert await due(store) == [allows.schedule]
            assert len(await runs(store, skips)) == len(await runs(store, allows)) == 1

    async def test_each_run_has_a_deadline_from_its_time_on(self, stage: Stage) -> None:
        """One that comes too late is not sent, and the schedule goes on."""
        async with stage.opened() as store:
            made = await start(store, within=10 * NS)
            stage.advance(2 * MINUTE)
            assert await store.expire() == 1
            await go_on(store, made, 2 * MINUTE)
            second, first = await runs(store, made)
            assert (first.state, first.reason, second.state) == ("failed", "deadline", "pending")
            assert [each.deadline for each in (first, second)] == [first.due_at + 10 * NS, second.due_at + 10 * NS]

    async def test_schedules_are_listed_page_by_page(self, stage: Stage) -> None:
        """The oldest first."""
        async with stage.opened() as store:
            made = [(await start(store, each)).schedule for each in range(3)]
            assert [each.id for each in await store.schedules(most=2)] == made[:2]
            assert [each.id for each in await store.schedules(str(made[1]))] == made[2:]

    async def test_a_lane_to_another_origin_is_refused_with_its_schedule(self, stage: Stage) -> None:
        """Nothing of that call is stored."""
        async with stage.opened() as store:
            await submit(store, new(lane="one"))
            astray = NewSchedule(run=new(lane="one", origin="https://other.example:443"), cron="* * * * *")
            with pytest.raises(OptionsError):
                await store.submit([new(2), astray])
            assert len(await everything(store)) == 1
            assert await store.schedules() == []
