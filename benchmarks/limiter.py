"""Limiter: what one pass through the gate costs, alone and with a crowd before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from time import perf_counter_ns
from typing import Any

from benchmarks import peers
from benchmarks.paired import Rounds, Sample, interleave, uncollected
from benchmarks.row import Row
from comity import Limiter, Rate
from comity.testing import VirtualClock

Gate = Callable[[], Any]
"""Makes (or returns) what the passes go through, by `async with`."""

FEW, MANY = 100, 10_000
"""How many wait in the two crowds that are compared."""

RATES = [Rate(20_000, 0.001), Rate(35_000, 0.002), Rate(50_000, 0.003)]
"""Short windows, so that starts also leave them; wide enough that no pass ever waits."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    yield from _alone(passes=2_000 if quick else 20_000, most=9 if quick else 41)
    yield from _threads(passes=2_000 if quick else 20_000, most=9 if quick else 41)
    yield from _crowds(grants=10_000 if quick else 30_000, most=7 if quick else 21)
    yield from _cancels(most=7 if quick else 21)


# ---- uncontended -------------------------------------------------------------------------------


def _alone(passes: int, most: int) -> Iterator[Row]:
    gates: dict[str, Gate] = {
        "no rate": _same(Limiter()),
        "1 rate": _same(Limiter(rate=RATES[0])),
        "3 rates": _same(Limiter(rate=RATES)),
        "semaphore": _same(asyncio.Semaphore(10)),
    }
    if aiolimiter := peers.find("aiolimiter"):
        gates["aiolimiter"] = _same(aiolimiter.AsyncLimiter(20_000, 0.001))
    pyrate = _Pyrate() if peers.find("pyrate_limiter") else None
    if pyrate:
        gates["pyrate-limiter"] = _same(pyrate)
    with asyncio.Runner() as runner:
        samples = {name: uncollected(_on(runner, partial(_pass, gate, passes))) for name, gate in gates.items()}
        rounds = interleave(samples, [(name, "semaphore") for name in ("1 rate", "3 rates")], most=most)
    if pyrate:
        pyrate.close()
    for name, target in (("no rate", None), ("1 rate", 1.5), ("3 rates", 2.5)):
        yield _ns(rounds, f"limiter: async with, {name}, to asyncio.Semaphore", name, "semaphore", target)
    for peer in ("aiolimiter", "pyrate-limiter"):
        what = f"limiter: async with, 1 rate, to {peer}"
        yield _ns(rounds, what, "1 rate", peer, None) if peer in gates else Row.absent(what)


def _threads(passes: int, most: int) -> Iterator[Row]:
    gates: dict[str, AbstractContextManager[Any]] = {
        "no rate": Limiter(),
        "1 rate": Limiter(rate=RATES[0]),
        "semaphore": threading.Semaphore(10),
    }
    samples = {name: uncollected(partial(_pass_thread, gate, passes)) for name, gate in gates.items()}
    rounds = interleave(samples, [("1 rate", "semaphore")], most=most)
    for name in ("no rate", "1 rate"):
        yield _ns(rounds, f"limiter: with, {name}, to threading.Semaphore", name, "semaphore", None)


async def _pass(gate: Gate, passes: int) -> float:
    each = gate()
    began = perf_counter_ns()
    for _ in range(passes):
        async with each:
            pass
    return (perf_counter_ns() - began) / passes


def _pass_thread(gate: AbstractContextManager[Any], passes: int) -> float:
    began = perf_counter_ns()
    for _ in range(passes):
        with gate:
            pass
    return (perf_counter_ns() - began) / passes


class _Pyrate:
    """pyrate-limiter in the form of the others."""

    def __init__(self) -> None:
        module: Any = peers.find("pyrate_limiter")
        self._limiter = module.Limiter(module.Rate(100_000, 100))

    async def __aenter__(self) -> None:
        await self._limiter.try_acquire_async("benchmark")

    async def __aexit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        """End its thread."""
        self._limiter.close()


# ---- with a crowd ------------------------------------------------------------------------------


def _crowds(grants: int, most: int) -> Iterator[Row]:
    gates: dict[str, Gate] = {"limiter": lambda: Limiter(1), "asyncio.Semaphore": lambda: asyncio.Semaphore(1)}
    rounds = _few_and_many(gates, lambda gate, waiters: _on_new_loop(partial(_grants, gate, waiters, grants)), most)
    for name in gates:
        yield _by_crowd(rounds, name, "a grant behind a slot")
    peer = f"asyncio.Semaphore {FEW}"
    yield _ns(rounds, f"limiter: a grant with {FEW} waiters, to asyncio.Semaphore", f"limiter {FEW}", peer, None)

    # Behind a rate virtual time passes; what is measured is the work.
    clock = VirtualClock()
    gates = {"limiter": lambda: Limiter(None, rate=Rate(1, 0.001), clock=clock)}
    rounds = _few_and_many(gates, lambda gate, waiters: partial(_run_virtually, clock, gate, waiters, grants), most)
    yield _by_crowd(rounds, "limiter", "a grant behind a rate")


def _few_and_many(gates: Mapping[str, Gate], sample: Callable[[Gate, int], Sample], most: int) -> Rounds:
    """Run all gates with both crowds in the same rounds."""
    samples = {
        f"{name} {waiters}": uncollected(sample(gate, waiters))
        for name, gate in gates.items()
        for waiters in (FEW, MANY)
    }
    return interleave(samples, [(f"limiter {MANY}", f"limiter {FEW}")], most=most)


def _by_crowd(rounds: Rounds, name: str, what: str) -> Row:
    target = 2.0 if name == "limiter" else None
    line = f"{name}: {what}, {MANY:,} waiters to {FEW}"
    return _ns(rounds, line, f"{name} {MANY}", f"{name} {FEW}", target)


async def _grants(make: Gate, waiters: int, grants: int) -> float:
    """Return ns per grant while `waiters` tasks stand in line; who had its turn goes to the end again."""
    gate = make()
    left = grants
    over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def worker() -> None:
        nonlocal left
        while True:
            async with gate:
                left -= 1
                if left == 0:
                    over.set_result(perf_counter_ns())

    async with gate:
        tasks = [asyncio.create_task(worker()) for _ in range(waiters)]
        await asyncio.sleep(0)
        began = perf_counter_ns()
    ended = await over
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return (ended - began) / grants


def _run_virtually(clock: VirtualClock, gate: Gate, waiters: int, grants: int) -> float:
    return clock.run(_grants(gate, waiters, grants))


# ---- going away --------------------------------------------------------------------------------


def _cancels(most: int) -> Iterator[Row]:
    def sample(gate: Gate, waiters: int) -> Sample:
        return partial(_repeated, _on_new_loop(partial(_leave, gate, waiters)), MANY // waiters)

    gates: dict[str, Gate] = {"limiter": lambda: Limiter(1), "asyncio.Semaphore": lambda: asyncio.Semaphore(1)}
    rounds = _few_and_many(gates, sample, most)
    for name in gates:
        yield _by_crowd(rounds, name, "a cancel of all but one")


async def _leave(make: Gate, waiters: int) -> float:
    """Return ns per cancelled waiter, from the cancels until the one who stayed has had its turn."""
    gate = make()

    async def worker() -> None:
        async with gate:
            pass

    async with gate:
        tasks = [asyncio.create_task(worker()) for _ in range(waiters)]
        await asyncio.sleep(0)
        stays = tasks.pop(waiters // 2)
        began = perf_counter_ns()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await stays
    return (perf_counter_ns() - began) / len(tasks)


# ---- helpers -----------------------------------------------------------------------------------


def _same(gate: Any) -> Gate:
    return lambda: gate


def _on(runner: asyncio.Runner, make: Callable[[], Any]) -> Sample:
    return lambda: float(runner.run(make()))


def _on_new_loop(make: Callable[[], Any]) -> Sample:
    return lambda: float(asyncio.run(make()))


def _repeated(sample: Sample, times: int) -> float:
    return sum(sample() for _ in range(times)) / times


def _ns(rounds: Rounds, what: str, ours: str, peer: str, most: float | None) -> Row:
    return Row.paired(what, rounds.figure(ours), rounds.figure(peer), rounds.ratio(ours, peer), "ns", most=most)
