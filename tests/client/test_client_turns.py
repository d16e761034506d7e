"""AsyncClient: waiting, deadlines, cancelling and closing leave nothing behind."""

from __future__ import annotations

import asyncio
import random
from time import monotonic_ns

import pytest

from comity.client.async_client import AsyncClient
from comity.engine.clock import RealClock
from comity.errors import ClientClosed, QueueTimeout, StatusError, TimedOut
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.policy.units import NS
from tests.client.scripted import OK, Peer, Scripted, answer, hang, ok, refused, status, under_way

QUICK = Backoff(base=0.001, cap=0.001)
TRIES = Retry(attempts=3, backoff=QUICK)


async def test_the_clock_of_an_attempt_does_not_run_in_the_queue():
    """TO-01, PF-024, PX-03"""
    async with (
        Scripted(answer(OK)) as server,
        AsyncClient(server.url, concurrency=1, timeout=0.5, min_gap=0.12, retry=0) as api,
    ):
        answers = await asyncio.gather(*(api.get("/x") for _ in range(6)))
        assert max(each.timings.queue for each in answers) > 0.5


async def test_the_deadline_counts_the_queue():
    async with Scripted(hang) as server, AsyncClient(concurrency=1, retry=0) as api:
        running = await under_way(server, api.get(server.url, timeout=None))
        with pytest.raises(TimedOut) as caught:
            await api.get(server.url, deadline=0.05)
        assert (caught.value.phase, caught.value.sent, caught.value.attempts) == ("deadline", "no", ())
        running.cancel()
        await asyncio.wait([running])


class OtherZero(RealClock):
    """A clock with a zero of its own, as a boot-time clock has."""

    now = staticmethod(lambda: monotonic_ns() + 3_600 * NS)


async def test_the_deadline_goes_by_the_clock_of_the_client():
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, clock=OtherZero(), deadline=60) as api:
        assert (await api.get("/x")).status_code == 200


async def test_the_deadline_ends_an_attempt_and_names_itself():
    async with Scripted(hang) as server, AsyncClient(retry=TRIES) as api:
        with pytest.raises(TimedOut) as caught:
            await api.get(server.url, deadline=0.5)
        assert (caught.value.phase, caught.value.seconds, len(caught.value.attempts)) == ("deadline", 0.5, 1)


async def test_expiry_in_the_queue_leaves_the_counters_exact():
    """CA-03"""
    async with Scripted(hang) as server, AsyncClient(concurrency=1, queue_timeout=0.05) as api:
        running = await under_way(server, api.get(server.url))
        waiting = await asyncio.gather(*(api.get(server.url) for _ in range(4)), return_exceptions=True)
        assert [type(each) for each in waiting] == [QueueTimeout] * 4
        assert (api.stats().queued, api.stats().running) == (0, 1)
        running.cancel()
        await asyncio.wait([running])
        assert (api.stats().queued, api.stats().running) == (0, 0)


async def test_a_timed_out_request_hands_its_slot_on():
    """PX-05"""

    async def script(peer: Peer) -> None:
        while (await peer.request()).target != "/hang":
            await peer.send(OK)
        await peer.gone()

    async with Scripted(script) as server, AsyncClient(server.url, concurrency=1, retry=0) as api:
        hung, *rest = await asyncio.gather(
            api.get("/hang", timeout=0.1), api.get("/b"), api.get("/c"), return_exceptions=True
        )
        assert isinstance(hung, TimedOut)
        assert [answer.status_code for answer in rest] == [200, 200]


async def test_no_more_sockets_are_open_than_may_run():
    """PX-01"""
    seen: dict[str, int] = {}

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.request()).target
            seen[target] = seen.get(target, 0) + 1
            await peer.send(ok(b"x" * 1024, "Retry-After: 0", status="429 X") if seen[target] == 1 else OK)

    async with Scripted(script) as server, AsyncClient(server.url, concurrency=2, learn=None) as api:
        answers = await asyncio.gather(*(api.get(f"/{number}") for number in range(50)))
        assert {answer.status_code for answer in answers} == {200}
        assert server.most_open <= 2


async def test_a_cancelled_call_ends_at_once_and_is_not_sent_again():
    """CP-079, PF-026, TO-03"""
    async with Scripted(hang) as server, AsyncClient(retry=TRIES) as api:
        task = await under_way(server, api.get(server.url))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda server: server.open == 0)
        assert (len(server.seen), api.stats().running) == (1, 0)


async def test_a_cancelled_wait_for_a_retry_ends_at_once():
    """CA-04, CP-079"""
    async with (
        Scripted(answer(refused(60))) as server,
        Scripted(answer(OK)) as other,
        AsyncClient(concurrency=1, retry=Retry(max_retry_after=120)) as api,
    ):
        task = asyncio.create_task(api.get(server.url))
        while not api.stats().hosts or not next(iter(api.stats().hosts.values())).paused_for:
            await asyncio.wait([task], timeout=0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(server.seen) == 1
        assert (await api.get(other.url)).status_code == 200


async def test_cancelled_waiters_are_gone_at_once():
    """PF-027, CA-05"""
    async with Scripted(hang) as server, AsyncClient(concurrency=1) as api:
        running = asyncio.create_task(api.get(server.url))
        waiting = [asyncio.create_task(api.get(server.url)) for _ in range(3)]
        while api.stats().queued < 3:
            await asyncio.wait([running], timeout=0.01)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert (api.stats().queued, api.stats().running) == (0, 1)
        running.cancel()
        await asyncio.wait([running])


async def test_random_cancels_leave_nothing_behind():
    """CA-01"""
    dice = random.Random(7)
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, concurrency=5, retry=TRIES) as api:
        for _ in range(20):
            tasks = [asyncio.create_task(api.get("/x")) for _ in range(20)]
            for task in tasks:
                for _ in range(dice.randrange(4)):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(5):
            answers = await asyncio.gather(*(api.get("/x") for _ in range(20)))
        assert {each.status_code for each in answers} == {200}
        assert (api.stats().queued, api.stats().running) == (0, 0)
        await api.aclose()
        await server.until(lambda server: server.open == 0)


async def test_thousands_of_queued_requests_need_few_sockets():
    """CP-087"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, concurrency=4) as api:
        await asyncio.gather(*(api.get("/x") for _ in range(2000)))
        assert (len(server.seen), server.most_open) == (2000, 4)


async def test_closing_refuses_what_waits_and_lets_what_runs_finish():
    """CP-004"""
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await release.wait()
        await peer.send(OK)
        await peer.gone()

    async with Scripted(script) as server:
        api = AsyncClient(server.url, concurrency=1)
        running = await under_way(server, api.get("/x"))
        waiting = asyncio.create_task(api.get("/x"))
        while not api.stats().queued:
            await asyncio.wait([waiting], timeout=0.01)
        closing = [asyncio.create_task(api.aclose()) for _ in range(2)]
        with pytest.raises(ClientClosed):
            await waiting
        assert not any(task.done() for task in closing)
        release.set()
        assert (await running).status_code == 200
        await asyncio.gather(*closing)
        await api.aclose()
        with pytest.raises(ClientClosed):
            await api.get("/x")
        await server.until(lambda server: server.open == 0)


async def test_closing_is_quick_when_a_server_never_lets_go():
    """PX-06"""

    async def script(peer: Peer) -> None:
        for _ in range(3):
            await peer.request()
            await peer.send(status(503))
        await asyncio.Event().wait()

    async with Scripted(script) as server:
        api = AsyncClient(server.url, retry=Retry(retries=2, backoff=QUICK))
        with pytest.raises(StatusError):
            await api.get("/x")
        async with asyncio.timeout(2):
            await api.aclose()


async def test_stats_tell_what_waits_and_runs():
    """CP-072, CP-073"""
    async with Scripted(hang) as server, AsyncClient(server.url, concurrency=2) as api:
        tasks = [asyncio.create_task(api.get("/x")) for _ in range(5)]
        while api.stats().queued < 3:
            await asyncio.wait(tasks, timeout=0.01)
        stats = api.stats()
        assert (stats.queued, stats.running, stats.concurrency) == (3, 2, 2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
