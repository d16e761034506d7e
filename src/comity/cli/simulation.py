"""Simulation: a run against a modelled upstream in virtual time, and what is to be told of it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from comity.bulk.clock_text import clock_text
from comity.bulk.found import found, rate_text
from comity.client.async_client import AsyncClient
from comity.client.response import Response
from comity.engine.stats import HostStats
from comity.errors import OptionsError
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.testing.model import Model
from comity.testing.scripted_transport import ScriptedTransport
from comity.testing.virtual_clock import VirtualClock

_MOST_ROWS = 24
"""Of the table over time; when there are more, two become one."""


@dataclass(slots=True)
class Span:
    """What happened in one stretch of time.

    Args:
        until: its end, ns after the beginning.
        accepted, refused, failed: what the upstream answered in it.
        host: the client's limits at its end.
    """

    until: int
    accepted: int
    refused: int
    failed: int
    host: HostStats

    def joined(self, later: Span) -> Span:
        """Return this stretch and the one after it as one."""
        return Span(
            later.until,
            self.accepted + later.accepted,
            self.refused + later.refused,
            self.failed + later.failed,
            later.host,
        )


@dataclass(slots=True)
class Simulation:
    """One run.

    Args:
        model: the upstream.
        requests: how many are wanted.
        most: the client's limit on what runs at once.
        ok: how many ended well.
        took: ns until the last one ended.
        latencies: seconds from the first send of each request to its end, its waits for another try included.
        spans: the course of it.
        failures: how many ended otherwise, by status or error.
    """

    model: Model
    requests: int
    most: int | None = None
    ok: int = 0
    took: int = 0
    latencies: list[float] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        """How many requests reached the upstream."""
        return self.model.accepted + self.model.refused + self.model.failed

    @property
    def waste(self) -> float:
        """The share of what was sent that was refused or failed."""
        return (self.model.refused + self.model.failed) / self.sent if self.sent else 0.0

    @property
    def goodput(self) -> float:
        """Accepted requests per second."""
        return self.model.accepted * NS / self.took if self.took else 0.0

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield from self._course()
        failed = ", ".join(f"{count:,} {what}" for what, count in sorted(self.failures.items()))
        yield f"requests  {self.requests:,}: {self.ok:,} ok" + (f", {failed}" if failed else "")
        if learned := found(self.spans[-1].host, self.most):
            yield f"learned   {learned}"
        yield f"eta       {clock_text(self.took / NS)}"
        capacity = self.model.capacity(self.took)
        share = f", {self.model.accepted / capacity:.1%} of what the upstream bears in that time" if capacity else ""
        yield f"goodput   {self.goodput:.3g}/s{share}"
        refused, other = self.model.refused, self.model.failed
        yield f"waste     {self.waste:.1%} of {self.sent:,} sent: {refused:,} refused, {other:,} failed"
        latencies = sorted(self.latencies)
        low, middle, high = (_quantile(latencies, share) for share in (0.5, 0.95, 0.99))
        yield f"latency   p50 {low:.3f} s, p95 {middle:.3f} s, p99 {high:.3f} s, from the first send to the answer"

    def _course(self) -> Iterator[str]:
        yield f"{'until':>9} {'accepted/s':>11} {'429s':>6} {'failed':>6} {'at once':>8} {'gap':>8} {'rate':>8}  held back by"
        before = 0
        for span in self.spans:
            speed = span.accepted * NS / (span.until - before)
            at_once = "-" if span.host.concurrency is None else f"{span.host.concurrency}"
            gap = f"{span.host.gap:.3f} s" if span.host.gap else "-"
            rate = "-" if span.host.rate is None else f"{rate_text(span.host.rate)}/s"
            until = f"{span.until / NS:.1f} s"
            counts = f"{speed:>11.1f} {span.refused:>6,} {span.failed:>6,}"
            yield f"{until:>9} {counts} {at_once:>8} {gap:>8} {rate:>8}  {span.host.reason}".rstrip()
            before = span.until


def simulate(
    upstream: str, policy: Policy, requests: int, *, cost: int | dict[str, int] = 1, seed: int = 0
) -> Simulation:
    """Send so many requests, all wanted at once, through a real client to a model, in virtual time.

    Args:
        upstream: what it bears; see `comity.testing.model.conditions`.
        policy: of the client.
        requests: how many.
        cost: of each, in requests or by budget.
        seed: of all that is left to chance.

    Raises:
        OptionsError: the upstream's text cannot be read, the cost can never start, or a rate counts what nothing takes.
    """
    idle = policy.budgets - {"requests", *(cost if isinstance(cost, dict) else ())}
    if idle:
        raise OptionsError(
            "--rate", min(idle), reason="no request takes of that budget", hint=f"give --cost {min(idle)}=1200"
        )
    random.seed(seed)  # the client's own draws: this process does nothing else
    clock = VirtualClock()
    simulation = Simulation(Model(upstream, clock, seed=seed), requests, policy.concurrency)
    clock.run(_run(simulation, policy, clock, cost))
    return simulation


async def _run(simulation: Simulation, policy: Policy, clock: VirtualClock, cost: int | dict[str, int]) -> None:
    script, began = ScriptedTransport(simulation.model), clock.now()
    async with AsyncClient("http://upstream", policy=policy, clock=clock, transport=script, raise_for="never") as api:
        watch = asyncio.create_task(_watch(simulation, api, clock, began))
        async for answer in api.map(("/" for _ in range(simulation.requests)), errors="return", cost=cost):
            _note(simulation, answer)
            script.requests.clear()
        watch.cancel()
        await asyncio.wait([watch])
        simulation.took = clock.now() - began
        _look(simulation, api, simulation.took)


def _note(simulation: Simulation, answer: Response | Exception) -> None:
    if not isinstance(answer, Response):
        simulation.failures[type(answer).__name__] += 1
        return
    if answer.status_code < 400:
        simulation.ok += 1
    else:
        simulation.failures[str(answer.status_code)] += 1
    waited = sum(each.waited for each in answer.attempts[1:])
    simulation.latencies.append(waited + sum(each.timings.total - each.timings.queue for each in answer.attempts))


async def _watch(simulation: Simulation, api: AsyncClient, clock: VirtualClock, began: int) -> None:
    """Look at regular times, ever further apart, so that a long run has a table of the same length."""
    every = NS
    while True:
        due = began + (simulation.spans[-1].until if simulation.spans else 0) + every
        await asyncio.sleep((due - clock.now()) / NS)
        _look(simulation, api, clock.now() - began)
        if len(simulation.spans) >= _MOST_ROWS:
            pairs = simulation.spans
            simulation.spans = [a.joined(b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
            every *= 2


def _look(simulation: Simulation, api: AsyncClient, now: int) -> None:
    model, spans = simulation.model, simulation.spans
    if spans and spans[-1].until == now:
        return
    accepted, refused, failed = (sum(getattr(s, name) for s in spans) for name in ("accepted", "refused", "failed"))
    host = next(iter(api.stats().hosts.values()), HostStats())
    span = Span(now, model.accepted - accepted, model.refused - refused, model.failed - failed, host)
    spans.append(span)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
