"""Refusals: what a 429 of one path, and one of a whole origin, means for the others. Real sockets, a real file."""

from __future__ import annotations

import asyncio

import pytest

from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.part import part_of
from tests.service.running import LIMIT, bench


@pytest.fixture
async def work(tmp_path):
    async with bench(tmp_path) as made:
        yield made


@pytest.mark.parametrize("lane", [None, "ill"])
async def test_a_path_that_always_refuses_costs_other_paths_and_lanes_of_its_origin_a_second_at_most(work, lane):
    """Its own backoff of minutes, and a backlog of it, hold nobody else."""
    slow = {"max_retries": 5, "backoff_ms": 60_000}
    ill = [await work.submit("/status/429", terms=slow, lane=lane) for _ in range(20)]
    made = await work.store.submit([work.delivery(f"/ok?n={n}") for n in range(200)])
    async with work.service(policy=Policy(concurrency=10)):
        for each in made:
            assert (await work.end(each.id)).state == "completed"
        assert {(await work.store.get(each)).state for each in ill} <= {"pending", "retrying"}
    assert work.arrivals("/status/429").total() <= 12  # as many as were under way before the first answer, and a probe


async def test_an_origin_that_refuses_whatever_comes_is_held_for_all_of_its_lanes(work):
    """Two paths refused with nothing answered between them: the origin's row says so, by the whole guess."""
    slow = {"max_retries": 5, "backoff_ms": 60_000}
    for path in ("/status/429?a", "/flaky/b?fail=99&code=429"):
        await work.submit(path, terms=slow)
    async with work.service(), asyncio.timeout(LIMIT):
        while (await work.store.origins())[0].paused_until <= await work.store.now() + 30 * NS:
            await work.store.counts()
    assert work.arrivals().total() == 2


async def test_a_fault_that_asks_for_a_year_fails_the_delivery_and_holds_its_origin_for_an_hour(work):
    """Nobody has to unblock it, and an event says what held it."""
    delivery = await work.submit("/flaky/a?fail=1&code=503&retry_after=31536000")
    async with work.service():
        found = await work.end(delivery)
    (origin,) = await work.store.origins()
    assert (found.state, found.reason) == ("failed", "retry_after")
    assert 3_500 * NS < origin.blocked_until - await work.store.now() <= 3_600 * NS
    (held,) = [event.note for event in await work.store.events(0) if event.kind == "origin.held"]
    assert held == f"blocked: HTTP 503, Retry-After 31536000 s, to {delivery}"


async def test_a_fault_that_asks_for_a_day_lets_its_delivery_wait_that_long_and_others_an_hour(work):
    delivery = await work.submit("/flaky/a?fail=1&code=503&retry_after=86400")
    async with work.service():
        found = await work.when(delivery, lambda row: row.state == "retrying" and not row.sending)
    (origin,) = await work.store.origins()
    assert found.due_at - await work.store.now() > 86_000 * NS
    assert 3_500 * NS < origin.paused_until - await work.store.now() <= 3_600 * NS


def test_paths_that_differ_in_their_ids_alone_are_one_part():
    origin = "https://a.example"
    parts = {part_of(origin, origin, f"{origin}/users/{user}/mail?page=2") for user in ("17", "1f0e-99", "a1")}
    assert parts == {f"{origin} /users/*/mail"}
    assert part_of(origin, origin, origin) != part_of(origin, origin, f"{origin}/users/me")
    assert part_of(origin, origin, f"{origin}\\[x") == f"{origin} /\\[x"
    assert part_of("mail", origin, f"{origin}/users/me") == "mail"
