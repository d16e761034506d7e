"""Lanes: a slow, paused or blocked one cannot delay another."""

from __future__ import annotations

from comity.policy.units import NS
from comity.store.records import NewDelivery
from comity.testing.conformance.stage import AGAIN, LEASE, OK, ORIGIN, Stage, claims, known, new, send, submit, worker

SLOTS = 40


def to(host: str, number: int = 0) -> NewDelivery:
    """Return a request to a host with a lane of its own."""
    return new(number, origin=f"https://{host}:443")


class Lanes:
    """Turns, shares, pauses and blocks."""

    async def test_no_lane_holds_over_a_quarter_of_the_slots(self, stage: Stage) -> None:
        """And the next that wakes up finds some, though those before it give none back."""
        async with stage.opened() as store:
            lease, held = await store.register("worker", LEASE), 0
            await submit(store, *(to("first", each) for each in range(200)))
            for other in range(10):
                await submit(store, *(to(f"slow{other}", each) for each in range(200)))
                got = await claims(store, lease, SLOTS - held)
                assert f"https://slow{other}:443" in {claim.lane for claim in got}
                held += len(got)
            assert max(lane.counts.held for lane in await store.lanes()) <= SLOTS // 4
            totals = await store.counts()
            assert totals.held == held <= SLOTS

    async def test_a_lane_alone_holds_half_of_the_slots_until_another_has_work(self, stage: Stage) -> None:
        """The other gets its part at once, and the first none before it holds less than its part."""
        async with stage.opened() as store:
            await submit(store, *(to("first", each) for each in range(200)))
            lease = await worker(store)
            first = await claims(store, lease, SLOTS)
            assert len(first) == SLOTS // 2
            assert await claims(store, lease, SLOTS // 2) == []
            await submit(store, *(to("second", each) for each in range(200)))
            second = await claims(store, lease, SLOTS // 2)
            assert [claim.lane for claim in second] == ["https://second:443"] * (SLOTS // 8)
            for claim in first[:15]:
                await store.begin(claim)
                await store.finish(claim, OK)
            again = await claims(store, lease, SLOTS // 2 - len(second) + 15)
            assert {claim.lane for claim in again} == {"https://first:443", "https://second:443"}

    async def test_a_full_lane_does_not_delay_a_healthy_one(self, stage: Stage) -> None:
        """With 10 000 in the queue of one, a delivery to the other is in the very next claim."""
        async with stage.opened() as store:
            for _ in range(10):
                await submit(store, *(to("dead", each) for each in range(1000)))
            lease = await worker(store)
            dead = await claims(store, lease, SLOTS)
            (number,) = await submit(store, to("healthy"))
            got = await claims(store, lease, SLOTS - len(dead))
            assert [claim.id for claim in got if claim.lane == "https://healthy:443"] == [number]

    async def test_lanes_take_turns(self, stage: Stage) -> None:
        """With one slot each gets its turn, however much waits in another."""
        async with stage.opened() as store:
            await submit(store, *(to(host, each) for host in ("a", "b", "c") for each in range(9)))
            lease = await worker(store)
            order = []
            for _ in range(9):
                (claim,) = await claims(store, lease, 1)
                order.append(claim.lane)
                await store.begin(claim)
                await store.finish(claim, AGAIN)
                stage.advance(1)
            assert all(len(set(order[turn : turn + 3])) == 3 for turn in (0, 3, 6))

    async def test_several_lanes_lead_to_one_origin(self, stage: Stage) -> None:
        """A lane keeps the origin that it began with."""
        async with stage.opened() as store:
            await submit(store, new(1, lane="small"), new(2, lane="large"), new(3))
            assert [lane.key for lane in await store.lanes()] == [ORIGIN, "large", "small"]
            assert [lane.key for lane in await store.lanes(ORIGIN, 1)] == ["large"]
            assert {lane.origin.name for lane in await store.lanes()} == {ORIGIN}
            assert len(await store.origins()) == 1

    async def test_a_paused_lane_waits_until_it_is_resumed(self, stage: Stage) -> None:
        """Others go on."""
        async with stage.opened() as store:
            await submit(store, new(1, lane="one"), new(2, lane="two"))
            lease = await worker(store)
            paused = await store.change_lane("one", paused=True)
            assert paused is not None
            assert paused.paused
            assert [claim.lane for claim in await claims(store, lease)] == ["two"]
            await store.change_lane("one", paused=False)
            assert [claim.lane for claim in await claims(store, lease)] == ["one"]

    async def test_limits_are_kept_as_they_were_given(self, stage: Stage) -> None:
        """They say nothing to a store."""
        async with stage.opened() as store:
            await submit(store, new(1, lane="one"))
            changed = await store.change_lane("one", limits=b'{"rate":"5/s"}')
            assert changed is not None
            assert (changed.limits, changed.paused) == (b'{"rate":"5/s"}', False)
            assert await store.lane("one") == changed

    async def test_a_lane_is_made_by_a_change_that_names_its_origin(self, stage: Stage) -> None:
        """Its first delivery finds the limits there; one that is there already leads where it leads."""
        async with stage.opened() as store:
            made = await store.change_lane(ORIGIN, limits=b'{"rate":"5/s"}', ordered=True, origin=ORIGIN)
            assert made is not None
            assert (made.origin.name, made.limits, made.ordered, made.counts.pending) == (
                ORIGIN,
                b'{"rate":"5/s"}',
                True,
                0,
            )
            await submit(store, new(1, ordered=True), new(2, lane="named"))
            assert [claim.lane for claim in await claims(store, await worker(store))] == [ORIGIN, "named"]
            await store.change_lane("named", paused=True, origin="https://elsewhere:443")
            lanes = [(lane.key, lane.origin.name, lane.limits, lane.paused) for lane in await store.lanes()]
            assert lanes == [(ORIGIN, ORIGIN, b'{"rate":"5/s"}', False), ("named", ORIGIN, b"{}", True)]

    async def test_a_blocked_origin_is_passed_over_until_its_time_or_until_it_is_unblocked(self, stage: Stage) -> None:
        """Pause, block and gap outlast the worker that learned them."""
        async with stage.opened() as store:
            await submit(store, *(to("blocked", each) for each in range(3)), to("open"))
            lease = await worker(store)
            name = "https://blocked:443"
            await store.hold(lease, name, pause=5 * NS, block=20 * NS, gap=NS)
            assert [claim.lane for claim in await claims(store, lease)] == ["https://open:443"]
            await store.resign(lease)
            lease = await store.register("next", LEASE)
            origin = next(each for each in await store.own(lease, 10) if each.name == name)
            now = await store.now()
            assert (origin.gap, origin.paused_until > now, origin.blocked_until > now) == (NS, True, True)
            stage.advance(10 * NS)
            assert [claim for claim in await claims(store, lease) if claim.lane == name] == []
            stage.advance(11 * NS)
            assert len([claim for claim in await claims(store, lease, 4) if claim.lane == name]) >= 1
            await store.hold(lease, name, block=3600 * NS)
            lane = await store.unblock(name)
            assert lane is not None
            assert (lane.origin.blocked_until, lane.origin.paused_until, lane.origin.gap) == (0, 0, 0)
            assert [claim.lane for claim in await claims(store, lease)][:1] == [name]

    async def test_a_paused_origin_is_passed_over_until_its_time(self, stage: Stage) -> None:
        """Or until its owner says that the pause is over."""
        async with stage.opened() as store:
            await submit(store, new(1, lane="one"), new(2, lane="two"))
            lease = await worker(store)
            await store.hold(lease, ORIGIN, pause=5 * NS)
            assert list(await claims(store, lease)) == []
            stage.advance(6 * NS)
            assert len(await claims(store, lease, 1)) == 1
            await store.hold(lease, ORIGIN, pause=5 * NS)
            assert list(await claims(store, lease, 1)) == []
            await store.hold(lease, ORIGIN)
            assert len(await claims(store, lease, 1)) == 1
            await store.hold(lease, ORIGIN, block=NS, why="HTTP 429")
            notes = [event.note for event in await store.events(0) if event.kind == "origin.held"]
            assert notes == ["paused", "paused", "free", "blocked: HTTP 429"]

    async def test_an_owner_learns_what_may_still_count_against_a_limit(self, stage: Stage) -> None:
        """A restart refills no limit: one under way counts as now, one of a lost worker as at its rescue."""
        async with stage.opened() as store:
            await submit(store, *(new(each, lane=f"lane{each}") for each in range(5)))
            lease = await worker(store)
            (old,) = await claims(store, lease, 1)
            await store.begin(old, b'{"tokens":7}')
            stage.advance(100 * NS)
            lease = (await store.renew(lease)).lease
            await send(store, lease)
            stage.advance(10 * NS)
            (unsent,) = await claims(store, lease, 1)
            await store.begin(unsent)
            await store.give_back([unsent], wait=3600 * NS)
            now = await store.now()
            found = await store.starts(ORIGIN, now - 60 * NS)
            first, under_way = found
            assert near(now - first.sent_at, 10 * NS)
            assert near(now - under_way.sent_at, 0)
            assert (first.under_way, under_way.under_way, under_way.cost) == (False, True, b'{"tokens":7}')
            stage.advance(LEASE + NS)
            await store.rescue(0)
            stage.advance(5 * NS)
            now = await store.now()
            (lost,) = await store.starts(ORIGIN, now - 10 * NS)
            assert near(now - lost.sent_at, 5 * NS)
            assert await store.starts("https://other:443", 0) == []

    async def test_counts_are_those_of_the_rows(self, stage: Stage) -> None:
        """By lane, and in all."""
        async with stage.opened() as store:
            numbers = await submit(
                store, *(new(each, lane="one") for each in range(4)), new(9, lane="two", delay=3600 * NS)
            )
            lease = await worker(store)
            held = (await claims(store, lease, 2))[0]
            await store.cancel(numbers[3])
            lane = await store.lane("one")
            assert lane is not None
            counts = lane.counts
            assert (counts.pending, counts.cancelled, counts.held, counts.ready) == (3, 1, 1, 2)
            totals = await store.counts()
            assert (totals.pending, totals.ready, totals.held) == (4, 2, 1)
            assert (await known(store, held.id)).state == "pending"


def near(ns: int, wanted: int) -> bool:
    """Return whether a length of time is as long as wanted, give or take the time that the test itself takes."""
    return abs(ns - wanted) < NS
