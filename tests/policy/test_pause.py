"""Pause: an episode of refusals and the ramp after it. Pure: every test passes its times, ns."""

from __future__ import annotations

from comity.policy.pause import NO_CAP, Pause


def test_an_episode_begins_with_a_refusal_of_a_request_that_started_after_the_last_pause():
    pause = Pause(10)
    assert pause.pause(5, 100, hinted=True)
    assert not pause.pause(99, 100, hinted=True)
    assert pause.pause(100, 300, hinted=True)


def test_within_an_episode_only_a_time_that_the_server_named_puts_the_end_off():
    pause = Pause(10)
    pause.pause(5, 100, hinted=True)
    pause.pause(6, 400, hinted=False)
    assert pause.until == 100
    pause.pause(7, 50, hinted=True)
    assert pause.until == 100
    pause.pause(8, 200, hinted=True)
    assert pause.until == 200


def test_after_a_pause_one_may_run_and_one_more_for_each_success_up_to_the_limit():
    pause, caps = Pause(4), []
    assert pause.cap == NO_CAP
    pause.pause(0, 100, hinted=True)
    for _ in range(4):
        caps.append(pause.cap)
        pause.succeeded()
    assert caps == [1, 2, 3, NO_CAP]


def test_a_pause_that_is_put_off_during_the_ramp_starts_the_ramp_anew():
    pause = Pause(10)
    pause.pause(5, 100, hinted=True)
    pause.succeeded()
    pause.succeeded()
    pause.pause(6, 500, hinted=True)
    assert (pause.until, pause.cap) == (500, 1)


def test_a_late_refusal_that_names_no_later_time_leaves_the_ramp_alone():
    pause = Pause(10)
    pause.pause(5, 100, hinted=True)
    pause.succeeded()
    pause.pause(6, 100, hinted=True)
    pause.pause(6, 900, hinted=False)
    assert (pause.until, pause.cap) == (100, 2)


def test_a_pause_that_is_lifted_leaves_the_ramp():
    pause = Pause(10)
    pause.pause(5, 100, hinted=True)
    pause.blocked_until = 300
    pause.lift()
    assert (pause.until, pause.blocked_until, pause.cap) == (0, 0, 1)
