"""Scheduler: the runs of a schedule, by the clock of its zone and of the store, however many make them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from comity.errors import OptionsError, StoreError
from comity.policy.units import NS
from comity.service.scheduler import Scheduler
from comity.store.records import ENDS, NewDelivery, Query
from comity.store.schedules import NewSchedule
from comity.testing.conformance.stage import claims, known, send, worker
from tests.service.running import bench
from tests.store.conftest import postgres, postgres_stage
from tests.store.sqlite_stage import SqliteStage

__all__ = ["postgres", "postgres_stage"]

ORIGIN = "https://upstream.example:443"


@pytest.fixture
async def stage(tmp_path):
    return SqliteStage(tmp_path)


@pytest.fixture
async def store(stage):
    async with stage.opened() as opened:
        yield opened


def ns(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * NS


async def set_to(stage, store, text):
    """Set the store's clock."""
    stage.advance(ns(text) - await store.now())


async def start(store, cron="* * * * *", zone="UTC", at=None, **options):
    """Submit a schedule; its first run is due when the clock says, or at a time."""
    run = NewDelivery(origin=ORIGIN, method="POST", url=ORIGIN + "/")
    new = NewSchedule(run=run, cron=cron, zone=zone, first_at=at or await store.now(), **options)
    (made,) = await store.submit([new])
    return made.schedule


async def times(store, schedule):
    """Return when the runs are due that there are, in order, and the state of each."""
    found = (await store.deliveries(Query(schedule=schedule))).deliveries
    return [(f"{datetime.fromtimestamp(each.due_at // NS, UTC):%d %H:%M}", each.state) for each in reversed(found)]


async def two(store, schedule):
    """Return when there are two runs of a schedule."""
    seen = await store.last_event()
    while len(await times(store, schedule)) < 2:
        await store.newer(seen)
        seen = await store.last_event()


@pytest.mark.parametrize(
    ("cron", "began", "due"),
    [
        # Forward: 02:30 does not exist on the 29th and is due at the jump, 03:00 of summer.
        ("30 2 * * *", "2026-03-28T01:30", ["28 01:30", "29 01:00", "30 00:30", "31 00:30"]),
        ("0 * * * *", "2026-03-29T00:00", ["29 00:00", "29 01:00", "29 02:00"]),
        # Back: 02:30 comes twice on the 25th and is due once; what is due every hour goes on through both.
        ("30 2 * * *", "2026-10-24T00:30", ["24 00:30", "25 00:30", "26 01:30"]),
        ("30 * * * *", "2026-10-24T23:30", ["24 23:30", "25 00:30", "25 01:30", "25 02:30"]),
    ],
)
async def test_a_run_is_made_for_each_time_also_where_clocks_are_set(stage, store, cron, began, due):
    await set_to(stage, store, began)
    schedule = await start(store, cron, "Europe/Berlin")
    while len(found := await times(store, schedule)) < len(due):
        assert (await store.due_schedules()).schedules
        await Scheduler(store).round()
        wait = (await store.due_schedules()).next_in
        stage.advance(wait)
    assert [time for time, _ in found] == due


async def test_times_that_were_missed_are_one_run_at_once_and_then_the_next_time(stage, store):
    await set_to(stage, store, "2026-05-01T12:00")
    schedule = await start(store, "*/10 * * * *", at=ns("2026-05-01T12:10"))
    await set_to(stage, store, "2026-05-01T14:35")
    await Scheduler(store).round()
    assert await times(store, schedule) == [("01 12:10", "pending"), ("01 14:40", "pending")]
    assert len(await claims(store, await worker(store))) == 1


async def test_a_clock_that_is_set_back_makes_no_time_come_twice(stage, store):
    await set_to(stage, store, "2026-05-01T12:00")
    schedule = await start(store, "*/10 * * * *")
    await Scheduler(store).round()
    await set_to(stage, store, "2026-05-01T11:00")
    for _ in range(3):
        await Scheduler(store).round()
    assert [time for time, _ in await times(store, schedule)] == ["01 12:00", "01 12:10"]
    await set_to(stage, store, "2026-05-01T12:10")
    await Scheduler(store).round()
    assert [time for time, _ in await times(store, schedule)] == ["01 12:00", "01 12:10", "01 12:20"]


async def test_a_run_that_is_cancelled_leaves_its_time_out(stage, store):
    await set_to(stage, store, "2026-05-01T12:00")
    schedule = await start(store, "*/10 * * * *", at=ns("2026-05-01T12:10"))
    await store.cancel((await store.schedule(schedule)).latest)
    await Scheduler(store).round()
    assert await times(store, schedule) == [("01 12:10", "cancelled"), ("01 12:20", "pending")]


async def test_with_skip_a_time_passes_while_the_run_before_is_alive(stage, store):
    await set_to(stage, store, "2026-05-01T12:00")
    schedule = await start(store, overlap="skip")
    lease = await worker(store)
    (claim,) = await claims(store, lease)
    await store.begin(claim)
    for _ in range(3):
        await Scheduler(store).round()
        stage.advance(60 * NS)
    assert await times(store, schedule) == [("01 12:00", "pending")]
    await store.give_back([claim])
    await send(store, lease)
    await Scheduler(store).round()
    assert await times(store, schedule) == [("01 12:03", "completed"), ("01 12:04", "pending")]


async def test_a_schedule_whose_zone_is_unknown_here_holds_no_other_up_and_is_told_once(stage, store, caplog):
    await set_to(stage, store, "2026-05-01T12:00")
    lost, other = await start(store, zone="Atlantis/Poseidonis"), await start(store)
    scheduler = Scheduler(store)
    await scheduler.round()
    stage.advance(60 * NS)
    await scheduler.round()
    assert [len(await times(store, each)) for each in (lost, other)] == [1, 3]
    assert caplog.text.count(f"the schedule {lost} stands still") == 1


async def test_more_than_a_page_of_schedules_that_stand_still_hold_no_other_up(stage, store):
    await set_to(stage, store, "2026-05-01T12:00")
    run = NewDelivery(origin=ORIGIN, method="POST", url=ORIGIN + "/")
    await store.submit(
        [NewSchedule(run=run, cron="* * * * *", zone="Atlantis/Poseidonis", first_at=1) for _ in range(501)]
    )
    other = await start(store)
    await Scheduler(store).round()
    assert len(await times(store, other)) == 2


async def test_one_schedule_can_be_made_to_go_on_alone_if_it_is_due(stage, store):
    await set_to(stage, store, "2026-05-01T12:00")
    one, other = await start(store), await start(store)
    for _ in range(2):
        await Scheduler(store).make(one)
        assert [len(await times(store, each)) for each in (one, other)] == [2, 1]


class Astray:
    """A store in which the lane of one schedule leads elsewhere by now."""

    def __init__(self, store, schedule):
        self._store, self._schedule = store, schedule

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def advance(self, runs):
        if any(each.schedule == self._schedule for each in runs):
            raise OptionsError("lane", "x", hint="it is a lane to elsewhere")
        return await self._store.advance(runs)


async def test_a_run_that_the_store_refuses_holds_no_other_up(stage, store, caplog):
    await set_to(stage, store, "2026-05-01T12:00")
    lost, other = await start(store), await start(store)
    await Scheduler(Astray(store, lost)).round()
    assert [len(await times(store, each)) for each in (lost, other)] == [1, 2]
    assert f"the schedule {lost} stands still" in caplog.text


async def test_more_than_a_page_is_done_in_one_round(stage, store, monkeypatch):
    monkeypatch.setattr("comity.service.scheduler._MOST", 3)
    await set_to(stage, store, "2026-05-01T12:00")
    for _ in range(8):
        await start(store)
    assert await Scheduler(store).round() == 10.0
    assert (await store.counts()).pending == 16
    stage.advance(55 * NS)
    assert await Scheduler(store).round() == 5.0


async def test_several_processes_make_each_run_once(postgres_stage):
    """Also while they lose their connections."""
    first, second = [await postgres_stage.open() for _ in range(2)]
    schedules = [await start(first) for _ in range(5)]
    for _ in range(4):
        await asyncio.gather(*(Scheduler(each).round() for each in (first, second) * 3))
        postgres_stage.advance(60 * NS)
        second = await postgres_stage.crash(second)
    for each in schedules:
        found = await times(first, each)
        assert len(found) == len(set(found)) == 5


async def test_news_wakes_it(stage, store):
    """A run that is cancelled is followed by the next one long before any time comes."""
    await set_to(stage, store, "2026-05-01T12:00")
    schedule = await start(store, "0 0 * * *", at=ns("2026-05-02T00:00"))
    running = asyncio.create_task(Scheduler(store, every=3600, rest=0).run())
    async with asyncio.timeout(30):
        await store.cancel((await store.schedule(schedule)).latest)
        await two(store, schedule)
    running.cancel()
    await asyncio.wait([running])
    assert await times(store, schedule) == [("02 00:00", "cancelled"), ("03 00:00", "pending")]


async def test_it_goes_on_by_itself_when_a_time_comes(stage, store):
    """Without any news: it sleeps until then."""
    schedule = await start(store, at=await store.now() + 60 * NS)
    running = asyncio.create_task(Scheduler(store, every=0.01).run())
    stage.advance(60 * NS)
    async with asyncio.timeout(30):
        await two(store, schedule)
    running.cancel()
    await asyncio.wait([running])


async def test_a_store_that_does_not_take_part_ends_its_run(stage):
    """Whoever keeps it starts it anew."""
    store = await stage.open()
    await store.close()
    with pytest.raises(StoreError):
        await Scheduler(store).run()


async def test_a_service_delivers_a_run_and_has_the_next_one_wait(tmp_path):
    async with bench(tmp_path) as work:
        new = NewSchedule(run=work.delivery("/ok/1"), cron="0 0 1 1 *", first_at=await work.store.now())
        (made,) = await work.store.submit([new])
        async with work.service(), asyncio.timeout(30):
            assert (await work.end(made.id)).state == "completed"
            await two(work.store, made.schedule)
        schedule = await work.store.schedule(made.schedule)
        run = await known(work.store, schedule.latest)
        assert (run.state in ENDS, run.due_at, run.due_at > await work.store.now()) == (False, schedule.next_at, True)
        (arrival,) = work.upstream.arrivals("/ok/1")
        assert dict(arrival.headers)["Idempotency-Key"] == f'"{(await known(work.store, made.id)).idempotency_key}"'
