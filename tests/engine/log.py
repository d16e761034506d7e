"""Log: calls that take their time, and what became of them."""

from __future__ import annotations

import asyncio

from comity.policy.units import NS


class Log:
    """What ran when, and how many at once."""

    def __init__(self, clock):
        self.clock, self.began = clock, clock.now()
        self.starts, self.live, self.peak = [], 0, 0

    async def work(self, name, takes=1.0):
        self.starts.append((name, self.now()))
        self.live += 1
        self.peak = max(self.peak, self.live)
        try:
            await asyncio.sleep(takes)
        finally:
            self.live -= 1
        return name

    def sync_work(self, name, takes=1.0):
        self.starts.append((name, self.now()))
        self.clock.signal().wait(self.clock.now() + round(takes * NS))
        return name

    def now(self):
        return round((self.clock.now() - self.began) / NS, 6)


def idle(limiter):
    stats = limiter.stats()
    return (stats.queued, stats.running) == (0, 0)
