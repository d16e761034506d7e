"""Leases: what a worker holds is its own while it is heard of, and nothing that it does later changes anything.

A worker that stands still is one whose event loop is held up, in a thread of its own; time on the store's clock is moved.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest

from comity.client.aiohttp_transport import AiohttpTransport
from comity.engine.clock import RealClock
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.errand import Setting
from comity.service.limits import Limits
from comity.service.rescuer import Rescuer
from comity.service.worker import Worker, WorkerOptions
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.testing.upstream import Upstream
from tests.service.running import LIMIT, LOOPBACK, Bench, Counted, Failing

HOUR = 3600 * NS


class Shifted(RealClock):
    """The real clock, which a test may put ahead."""

    def __init__(self):
        self.ahead = 0

    def now(self):
        return time.monotonic_ns() + self.ahead

    def wall(self):
        return time.time_ns() + self.ahead


class Leased(Bench):
    """A bench whose workers are started one by one, on clocks that the test moves together."""

    def __init__(self, store, upstream, path, clock):
        super().__init__(store, upstream, path)
        self.clock = clock

    @asynccontextmanager
    async def worker(self, *, lease=HOUR, store=None, policy=None, patience=5 * NS, sweep=HOUR, grace=0.0, slots=8):
        transport = AiohttpTransport(guard=LOOPBACK)
        setting = Setting(store=store or self.store, transport=transport, clock=self.clock, patience=patience)
        policy = policy or Policy(concurrency=8, learn=None)
        options = WorkerOptions(slots=slots, lease=lease, policy=policy, sweep=sweep)
        worker = Worker(setting, options)
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.drain(grace)
            await task
            await transport.aclose()

    async def elsewhere(self):
        """Let the worker do a whole delivery to somewhere else, in the time of which it would have done others too."""
        await self.end(await self.submit("http://127.0.0.1:1/", terms={"max_retries": 1, "backoff_ms": 100}))

    async def until_lost(self):
        """Return when the lease that nobody renewed has run out."""
        async with asyncio.timeout(LIMIT):
            while not (await self.store.rescue(0)).leases:
                pass

    async def told(self, kind):
        """Return when the store's events tell of something of a kind."""
        async with asyncio.timeout(LIMIT):
            seen = 0
            while kind not in [each.kind for each in await self.store.events(0)]:
                await self.store.newer(seen)
                seen = await self.store.last_event()

    async def decisions(self, delivery):
        return [each.decision for each in await self.store.attempts(delivery)]


@pytest.fixture
async def work(tmp_path):
    clock, path = Shifted(), tmp_path / "store.sqlite"
    migrate(path)
    store = SqliteStore(path, clock=clock.wall)
    async with Upstream(capture=True) as upstream:
        yield Leased(store, upstream, path, clock)
    await store.close()


class Elsewhere:
    """A worker on a loop in a thread of its own, which can be held up."""

    def __init__(self, work, **options):
        self._work, self._options = work, options
        self._started, self._go_on, self._leave = threading.Event(), threading.Event(), None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    async def _live(self):
        self._loop, self._leave = asyncio.get_running_loop(), asyncio.Event()
        async with self._work.worker(**self._options):
            self._started.set()
            await self._leave.wait()

    async def __aenter__(self):
        self._thread.start()
        await asyncio.to_thread(self._started.wait)
        return self

    async def __aexit__(self, *_error):
        self.go_on()
        self._loop.call_soon_threadsafe(self._leave.set)
        await asyncio.to_thread(self._thread.join)

    async def freeze(self):
        stands = threading.Event()

        def stand_still():
            stands.set()
            self._go_on.wait()

        self._loop.call_soon_threadsafe(stand_still)
        await asyncio.to_thread(stands.wait)

    def go_on(self):
        self._go_on.set()


async def test_a_worker_that_stood_still_past_its_lease_changes_nothing(work):
    """WC-01, DD-01: its attempt reads unknown, another worker's is the delivery's end, and it works on with a new lease."""
    delivery = await work.submit("/delay/300")
    async with Elsewhere(work, lease=60 * NS) as frozen:
        await work.upstream.until(lambda up: len(up.log) == 1)
        await frozen.freeze()
        work.clock.ahead += 61 * NS
        await Rescuer(work.store).round()
        async with work.worker():
            found = await work.end(delivery)
        assert (found.state, found.attempts) == ("completed", 2)
        frozen.go_on()
        other = await work.end(await work.submit("/ok/1"))
        assert other.state == "completed"
    assert await work.store.get(delivery) == found
    assert await work.decisions(delivery) == ["unknown", "completed"]


class Slow:
    """A store whose commits of attempts take an hour, as if the process had stood still behind them."""

    def __init__(self, store, clock):
        self._store, self._clock = store, clock
        self.begun = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def begin(self, claim, cost=b"{}"):
        number = await self._store.begin(claim, cost)
        self._clock.ahead += HOUR
        self.begun.set()
        return number


async def test_nothing_is_sent_when_the_lease_may_have_run_out_since_the_row_was_written(work):
    """WC-01: who comes back between the commit and the first byte gives the claim back."""
    delivery = await work.submit("/ok/1")
    slow = Slow(work.store, work.clock)
    async with work.worker(lease=60 * NS, store=slow):
        await slow.begun.wait()
    assert work.upstream.log == []
    assert await work.decisions(delivery) == ["unsent"]


async def test_what_is_longer_than_a_lease_stays_its_workers(work):
    """DD-01: the lease is renewed while the attempt is under way, so nobody else gets the delivery."""
    delivery = await work.submit("/delay/3500")
    async with work.worker(lease=3 * NS), work.worker():
        rescuer = asyncio.create_task(Rescuer(work.store, every=0.2).run())
        found = await work.end(delivery)
        rescuer.cancel()
    assert (found.state, found.attempts, len(work.upstream.log)) == ("completed", 1, 1)


async def test_workers_share_what_there_is_and_send_nothing_twice(work):
    """DD-03, DD-04: 6 workers, 300 deliveries to 2 origins, 300 requests."""
    origins = [work.upstream.url, work.upstream.url.replace("127.0.0.1", "localhost")]
    new = [work.delivery(f"{origins[n % 2]}/ok/{n}") for n in range(300)]
    async with work.worker(), work.worker(), work.worker(), work.worker(), work.worker(), work.worker():
        for each in await work.store.submit(new):
            await work.end(each.id)
    assert sorted(work.arrivals().values()) == [1] * 300


async def test_a_worker_that_stops_lets_attempts_end_and_gives_back_the_rest(work):
    """A drain: what is under way within the time is completed, what waits for its turn goes back untouched."""
    first = await work.submit("/delay/200")
    waiting = [await work.submit(f"/ok/{n}") for n in range(2)]
    async with work.worker(policy=Policy(concurrency=1), grace=20.0):
        await work.upstream.until(lambda up: len(up.log) == 1)
    assert (await work.store.get(first)).state == "completed"
    states = [(found.state, found.attempts) for found in [await work.store.get(each) for each in waiting]]
    assert states == [("pending", 0)] * 2
    assert (await work.store.counts()).held == 0
    async with work.worker():
        for each in waiting:
            assert (await work.end(each)).state == "completed"


async def test_an_attempt_that_does_not_end_in_time_is_cut_short_and_sent_again(work):
    """A drain's limit: its outcome is not known, and it counts as an attempt."""
    delivery = await work.submit("/flaky/a?fail=1&code=hang")
    async with work.worker():
        await work.upstream.until(lambda up: len(up.log) == 1)
    (attempt,) = await work.store.attempts(delivery)
    assert (attempt.sent, attempt.decision, attempt.error) == (
        "maybe", "retrying", "cut short, as the worker was stopped",
    )  # fmt: skip
    async with work.worker():
        assert (await work.end(delivery)).attempts == 2


# What origins teach, and what people say


async def test_what_a_host_taught_outlives_the_worker(work):
    """A pause stands in the origin's row, and nobody is sent into it after a restart."""
    delivery = await work.submit("/flaky/a?fail=1&code=429&retry_after=600")
    async with work.worker():
        await work.when(delivery, lambda found: found.state == "retrying" and not found.sending)
    (origin,) = await work.store.origins()
    assert origin.paused_until > await work.store.now() + 500 * NS
    other = await work.submit("/ok/1", lane="other")
    async with work.worker():
        await work.elsewhere()
        assert len(work.upstream.log) == 1
        await work.store.unblock("other")
        assert (await work.end(other)).state == "completed"


async def test_what_a_host_taught_while_the_store_refused_it_is_written_later(work):
    """No other attempt brings it up while the origin is paused, and a restart would forget it."""
    store = Failing(work.store, "hold", 1)
    delivery = await work.submit("/flaky/a?fail=1&code=429&retry_after=600")
    async with work.worker(store=store):
        await work.told("origin.held")
    (origin,) = await work.store.origins()
    assert origin.paused_until > await work.store.now() + 500 * NS
    assert (await work.store.get(delivery)).state == "retrying"


async def test_an_unblocked_origin_goes_on_in_the_worker_that_paused_it(work):
    """What an operator says holds for the limiter too, not only for the row."""
    delivery = await work.submit("/flaky/a?fail=1&code=429&retry_after=600")
    async with work.worker():
        await work.when(delivery, lambda found: found.state == "retrying" and not found.sending)
        other = await work.submit("/ok/1", lane="other")
        await work.store.unblock("other")
        assert (await work.end(other)).state == "completed"


async def test_limits_that_are_set_hold_from_then_on(work):
    """The lane that is called as its origin carries the origin's limits; what was sent before counts."""
    lane = work.upstream.url
    async with work.worker(patience=NS // 20):
        await work.end(await work.submit("/ok/1"))
        await work.store.change_lane(lane, limits=Limits(rate="2/1h").stored())
        await work.end(await work.submit("/ok/2"))
        await work.submit("/ok/3")
        await work.elsewhere()
    assert len(work.upstream.log) == 2


async def test_what_is_under_way_when_limits_are_set_counts_under_the_new_ones(work):
    """Two at a time were two more than that whenever somebody changed a limit, and a rate forgot what had no answer yet."""
    lane = work.upstream.url
    async with work.worker(policy=Policy(concurrency=2), patience=NS // 20):
        slow = [await work.submit(f"/delay/1500?n={n}") for n in range(2)]
        await work.upstream.until(lambda up: len(up.log) == 2)
        await work.store.change_lane(lane, limits=Limits(concurrency=2, rate="100/1h").stored())
        third = await work.submit("/ok/1")
        for each in (*slow, third):
            assert (await work.end(each)).state == "completed"
    assert work.upstream.stats().total.max_in_flight == 2


async def test_a_lane_that_is_paused_gives_back_what_waits(work):
    """What was claimed and not begun is not sent once its lane is paused."""
    first = await work.submit("/delay/200")
    waiting = await work.submit("/ok/1")
    async with work.worker(policy=Policy(concurrency=1)):
        await work.upstream.until(lambda up: len(up.log) == 1)
        await work.store.change_lane(work.upstream.url, paused=True)
        await work.end(first)
        await work.elsewhere()
        assert (await work.store.get(waiting)).state == "pending"
        await work.store.change_lane(work.upstream.url, paused=False)
        assert (await work.end(waiting)).state == "completed"


async def test_a_worker_without_a_free_slot_rests(work):
    """What comes due meanwhile is no reason to look: a slot that comes free is."""
    store = Counted(work.store)
    slow = await work.submit("/delay/1500")
    due = await work.submit("/ok/1", delay=NS // 10)
    async with work.worker(slots=1, store=store):
        await work.end(slow)
        assert store.calls["events"] < 20
        assert (await work.end(due)).state == "completed"


CALLS = [
    "begin",
    "claim",
    "disown",
    "events",
    "finish",
    "give_back",
    "hold",
    "lane",
    "newer",
    "now",
    "own",
    "renew",
    "starts",
]


@pytest.mark.parametrize("call", CALLS)
async def test_a_store_that_refuses_for_a_while_cuts_nothing_short(work, call):
    """WC-05: whichever call of a worker it is, what is under way ends once, and what waits is sent afterwards."""
    store = Failing(work.store, call, 0)
    elsewhere = work.upstream.url.replace("127.0.0.1", "localhost")
    policy = Policy(concurrency=1, learn=None, rate="50/1s")
    async with work.worker(store=store, lease=3 * NS, policy=policy, sweep=NS // 20, patience=NS // 20):
        slow = await work.submit("/delay/1200")
        await work.upstream.until(lambda up: len(up.log) == 1)
        store.left = 2
        others = [await work.submit("/ok/1"), await work.submit(f"{elsewhere}/flaky/a?fail=1&code=429&retry_after=1")]
        found = await work.end(slow)
        assert (found.state, found.attempts) == ("completed", 1)
        for each in others:
            assert (await work.end(each)).state == "completed"
        await work.until(lambda: store.left == 0)
        assert (await work.end(await work.submit("/ok/2"))).state == "completed"
    assert work.arrivals() == {"/delay/1200": 1, "/ok/1": 1, "/flaky/a?fail=1&code=429&retry_after=1": 2, "/ok/2": 1}


async def test_a_delivery_that_cannot_be_read_fails_however_often_the_store_refuses(work):
    """WC-03: its attempt's row is written later."""
    bad = await work.submit("/ok/1", headers=b"[1]")
    store = Failing(work.store, "begin", 1)
    async with work.worker(store=store):
        found = await work.end(bad)
    assert (found.reason, found.attempts, store.left) == ("invalid", 1, 0)


async def test_a_lane_with_limits_of_its_own_is_held_to_them_and_its_origins_others_are_not(work):
    """Limits of a lane hold besides its origin's; what its origin was sent before counts, so that no restart refills them."""
    async with work.worker():
        await work.end(await work.submit("/ok/1", lane="slow"))
    await work.store.change_lane("slow", limits=Limits(rate="2/1h").stored())
    async with work.worker(patience=NS // 20):
        await work.end(await work.submit("/ok/2", lane="slow"))
        await work.submit("/ok/3", lane="slow")
        await work.end(await work.submit("/ok/4", lane="quick"))
        await work.elsewhere()
    assert sorted(work.arrivals()) == ["/ok/1", "/ok/2", "/ok/4"]


async def test_a_lane_may_have_fewer_in_flight_than_its_origin(work):
    """Concurrency of the lane's own."""
    await work.submit("/ok/0", lane="narrow")
    await work.store.change_lane("narrow", limits=Limits(concurrency=1).stored())
    numbers = [await work.submit(f"/delay/20?n={n}", lane="narrow") for n in range(8)]
    async with work.worker():
        for each in numbers:
            assert (await work.end(each)).state == "completed"
    assert work.upstream.stats().total.max_in_flight == 1


async def test_a_lease_that_cannot_be_renewed_is_renewed_a_little_later(work):
    """One refusal of the store costs nothing: the lease lasts for two more tries."""
    store = Failing(work.store, "renew", 1)
    async with work.worker(lease=3 * NS, store=store):
        number = await work.submit("/delay/1500")
        assert (await work.end(number)).attempts == 1
    assert store.left == 0


async def test_a_worker_whose_lease_cannot_be_renewed_in_time_begins_anew(work, caplog):
    """WC-01: it does not wait to be told that others have got what it held."""
    delivery = await work.submit("/flaky/a?fail=1&code=hang")
    store = Failing(work.store, "renew", 0)
    async with work.worker(lease=2 * NS, store=store):
        await work.upstream.until(lambda up: len(up.log) == 1)
        store.left = 1_000_000
        await work.until(lambda: "begins anew" in caplog.text)
        store.left = 0
        await work.until_lost()
        assert (await work.end(delivery)).state == "completed"
    assert await work.decisions(delivery) == ["unknown", "completed"]


async def test_who_waits_when_the_host_is_blocked_or_the_deadline_comes_goes_back(work):
    """A claim waits for its turn only as long as it may: the row waits on, or fails by its deadline."""
    number = await work.submit("/delay/300?n=1")
    deadline = await work.store.now() + NS // 5
    late = await work.submit("/ok/late", deadline=deadline)
    async with work.worker(policy=Policy(concurrency=1), patience=20 * NS):
        assert (await work.end(number)).state == "completed"
        found = await work.end(late)
    assert (found.state, found.reason, found.attempts) == ("failed", "deadline", 0)


async def test_a_turn_that_does_not_come_for_no_reason_that_names_a_time_goes_back_for_a_second(work):
    """A slot is not held for ever by what waits behind a slow answer."""
    slow = await work.submit("/delay/400")
    waiting = await work.submit("/ok/1")
    async with work.worker(policy=Policy(concurrency=1), patience=NS // 20) as worker:
        await work.upstream.until(lambda up: len(up.log) == 1)
        await work.until(lambda: worker.held == 1)
        assert (await work.store.get(waiting)).attempts == 0
        assert (await work.end(slow)).state == "completed"
        assert (await work.end(waiting)).state == "completed"


async def test_origins_with_nothing_to_do_are_given_up(work):
    """Another worker may have them then; one with something to remember stays."""
    await work.submit("/ok/1")
    async with work.worker(sweep=NS // 100):
        await work.told("origin.released")
        assert (await work.end(await work.submit("/ok/2"))).state == "completed"


async def test_limits_that_cannot_be_used_are_told_and_the_default_ones_hold(work, caplog):
    """Whoever sets limits checks them; another version may have been easier on them."""
    number = await work.submit("/ok/1")
    await work.store.change_lane(work.upstream.url, limits=b'{"rate":"often"}')
    async with work.worker():
        assert (await work.end(number)).state == "completed"
    assert "cannot be used, the default ones hold" in caplog.text
