"""Origins: many of them begin together."""

from __future__ import annotations

import pytest

from comity.engine.clock import MONOTONIC
from comity.errors import StoreError
from comity.policy.host_rules import HostRules
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.origins import Origins
from tests.service.running import Counted, Failing, bench

MANY = 60


@pytest.fixture
async def work(tmp_path):
    async with bench(tmp_path) as work:
        await work.store.submit([work.delivery(f"http://127.0.0.1:{n}/") for n in range(1, MANY + 1)])
        yield work


def origins(store):
    return Origins(store, HostRules(Policy(rate="5/1s"), {}), MONOTONIC)


async def test_to_take_many_origins_the_time_is_asked_for_once(work):
    """Each besides costs two reads: its lane, and what was sent to it."""
    store = Counted(work.store)
    owned = origins(store)
    await owned.own(await store.register("w", 60 * NS), 200)
    assert len(owned) == MANY
    assert (store.calls["now"], store.calls["lane"], store.calls["starts"]) == (1, MANY, MANY)


async def test_what_an_answer_taught_is_told_of_that_answer_whichever_writes_it_down(work):
    owned, lease = origins(work.store), await work.store.register("w", 60 * NS)
    await owned.own(lease, 200)
    origin = await owned.get("http://127.0.0.1:1")
    origin.held_by = "HTTP 429, to a"
    origin.gate.change(lambda now: origin.gate.core.pause.pause(now, now + 60 * NS, hinted=True))
    await owned.write(lease, origin, "HTTP 204, to b")
    origin.lift()
    origin.unwritten()
    await owned.write(lease, origin, "HTTP 204, to c")
    notes = [event.note for event in await work.store.events(0) if event.kind == "origin.held"]
    assert notes == ["paused: HTTP 429, to a", "free: HTTP 204, to c"]


async def test_an_origin_that_cannot_begin_holds_up_no_other_and_begins_later(work):
    store = Failing(work.store, "starts", 1)
    owned, lease = origins(store), await store.register("w", 60 * NS)
    with pytest.raises(StoreError, match="full"):
        await owned.own(lease, 200)
    assert len(owned) == MANY - 1
    await owned.own(lease, 200)
    assert len(owned) == MANY
