"""Sleep: a machine that stood still for hours goes on with what came due meanwhile, as politely as ever."""

from __future__ import annotations

import time

from comity.engine.clock import RealClock
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.units import NS
from comity.store.sqlite.store import SqliteStore
from comity.testing.upstream import peak
from tests.service.running import bench

JOBS, RATE, PER = 50, 20, NS // 2
SLEPT = 10 * 3600 * NS
TERMS = {"max_retries": 1, "backoff_ms": 30_000}


class Woken(RealClock):
    """The clock of a process that starts after the sleep."""

    @staticmethod
    def wall():
        return time.time_ns() + SLEPT


async def test_what_came_due_during_a_sleep_is_sent_at_once_and_within_the_limit(tmp_path):
    """CK-03: 50 attempts due in a minute, a restart ten hours later: all are sent, no window fuller than allowed."""
    async with bench(tmp_path) as work:
        jobs = [await work.submit(f"/flaky/{n}?fail=1&code=500", terms=TERMS) for n in range(JOBS)]
        async with work.service():
            for each in jobs:
                await work.when(each, lambda found: found.state == "retrying" and not found.sending)
        await work.store.close()
        before = len(work.upstream.log)
        work.store = SqliteStore(work.path, clock=Woken.wall)
        try:
            policy = Policy(rate=Rate(RATE, PER / NS, measured="server"), concurrency=JOBS)
            async with work.service(policy=policy, clock=Woken()):
                assert {(await work.end(each)).state for each in jobs} == {"completed"}
        finally:
            await work.store.close()
        woken = [each.at for each in work.upstream.log[before:]]
        assert (before, len(woken)) == (JOBS, JOBS)
        assert peak(woken, PER) <= RATE
