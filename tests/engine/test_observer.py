"""Observer: what the caller's function does with an event is no concern of the request's."""

from __future__ import annotations

import logging

import pytest

from comity.engine.observer import observer
from comity.errors import OptionsError
from comity.policy.events import Event
from tests.engine.scenarios import Asked, Play, Scenario, answers, policy

EVENT = Event(type="queued", host="api.example", at=0.0)


def test_without_a_function_there_is_nothing_to_call():
    assert observer(None) is None


def test_an_observer_that_raises_breaks_nothing_and_is_logged_once_per_kind(caplog):
    """PF-005: the second of a kind is not logged again, another kind is."""
    errors = [LookupError("first"), LookupError("second"), ValueError("third")]

    def raises(event):
        raise errors.pop(0)

    safe = observer(raises)
    with caplog.at_level(logging.ERROR, logger="comity"):
        for _ in range(3):
            safe(EVENT)
    assert [record.exc_info[0] for record in caplog.records] == [LookupError, ValueError]
    assert "'queued' event" in caplog.text


def test_an_interrupt_in_an_observer_goes_through():
    def interrupts(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        observer(interrupts)(EVENT)


@pytest.mark.parametrize("engine", ["async", "threads"])
def test_a_call_goes_on_under_an_observer_that_always_raises(engine, caplog):
    """PF-005: the same starts and results as without it."""

    def raises(event):
        raise LookupError(event.type)

    asked = Asked(gets=answers(500, 200), starts=(0, 1.1))
    seen = Play(Scenario(name="", policy=policy(), asked=(asked,)), raises).on(engine)
    assert (tuple(seen[0].starts), seen[0].ends) == (asked.starts, asked.ends)
    assert len(caplog.records) == 1


async def awaited(_event):
    pass


def test_a_function_that_has_to_be_awaited_is_refused():
    with pytest.raises(OptionsError, match=r"on_event=.*a plain function"):
        observer(awaited)
