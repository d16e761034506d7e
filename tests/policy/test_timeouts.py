"""Timeout: limits of one attempt's phases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from comity.errors import OptionsError
from comity.policy.timeouts import Timeout
from comity.policy.units import NS

PHASES = ("connect", "send", "request", "response", "idle", "attempt")


def limits(timeout):
    return tuple(getattr(timeout, phase) for phase in PHASES)


def test_every_phase_that_can_hang_has_a_limit_by_default():
    """CP-031: 30 s for waiting for headers and for body inactivity."""
    assert limits(Timeout()) == (10.0, 30.0, None, 30.0, 30.0, None)


def test_each_phase_can_be_set_alone():
    """HT-008 HT-055: one, none or all limits may be set."""
    assert limits(Timeout(request="5s", attempt=timedelta(minutes=1))) == (10.0, 30.0, 5.0, 30.0, 30.0, 60.0)
    assert limits(Timeout.of(None)) == (None,) * 6


def test_the_core_gets_nanoseconds():
    timeout = Timeout(connect="250ms", idle=None)
    assert (timeout.connect_ns, timeout.send_ns, timeout.idle_ns) == (NS // 4, 30 * NS, None)


@pytest.mark.parametrize("given", [120, "2min", timedelta(minutes=2)])
def test_a_duration_limits_the_whole_attempt_and_lets_a_slow_answer_take_it_all(given):
    """PF-024: timeoutMs is the limit of one attempt."""
    assert limits(Timeout.of(given)) == (10.0, None, None, None, None, 120.0)


def test_a_timeout_is_taken_as_it_is():
    timeout = Timeout(idle=1)
    assert Timeout.of(timeout) is timeout
    assert timeout == Timeout(idle="1s")


@pytest.mark.parametrize("value", [0, -1, True, "soon", float("nan")])
def test_what_is_no_limit_is_refused_by_name(value):
    with pytest.raises(OptionsError, match=r"timeout\.response"):
        Timeout(response=value)
    with pytest.raises(OptionsError, match="timeout="):
        Timeout.of(value)


def test_an_unknown_phase_names_the_nearest():
    with pytest.raises(OptionsError, match="did you mean response"):
        Timeout(respons=3)
