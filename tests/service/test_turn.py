"""Turn: a send counts at the gate of its lane and at that of its origin, by the one slot that the engine and the transport share."""

from __future__ import annotations

from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange
from comity.engine.hosts import Hosts
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry
from comity.service.turn import UNLIMITED, Turn, lane_gate
from comity.testing.virtual_clock import VirtualClock


def test_the_first_byte_starts_both_and_the_slot_stays_the_engines():
    clock = VirtualClock()
    gate = lane_gate(UNLIMITED.replace(rate="2/1h"), "lane", clock)
    engine = AsyncEngine(Hosts(Policy(rate="2/1h"), max_connections=None, clock=clock))

    async def deliver():
        async with Turn(gate, 5, 1) as turn:

            async def send(slot):
                turn.counts(slot)
                assert not slot.begun
                slot.sent()
                assert slot.begun
                return Exchange(outcome=Outcome(status=200), value="answer")

            return await engine.run(Call(host="a", retry=Retry(retries=0)), send)

    assert clock.run(deliver()).value == "answer"
    assert not gate.core.idle(clock.now())
