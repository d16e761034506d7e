"""schedule: at once, at a time, after a delay, again and again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from comity.errors import OptionsError
from comity.policy.units import NS
from comity.service.cron import Cron
from comity.service.schedule import Once, schedule_of

NOW = 1_767_225_600 * NS  # 2026-01-01T00:00:00Z


def first(**asked: object) -> int | None:
    return schedule_of(now=NOW, **asked).next(NOW - 1)


@pytest.mark.parametrize(
    ("asked", "later"),
    [
        ({}, 0),
        ({"delay": 0}, 0),
        ({"delay": 1.5}, 1.5),
        ({"delay": "2h"}, 7_200),
        ({"delay": timedelta(days=1)}, 86_400),
        ({"run_at": "2026-01-01T00:00:10.5Z"}, 10.5),
        ({"run_at": "2026-01-01T01:00:10+01:00"}, 10),
        ({"run_at": "2025-01-01T00:00:00Z"}, 0),
        ({"run_at": datetime(2026, 1, 1, 0, 1, tzinfo=UTC)}, 60),
        ({"run_at": datetime(2026, 1, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}, 60),
        ({"cron": "0 0 * * *"}, 0),
        ({"cron": "5 0 * * *"}, 300),
        ({"cron": "0 2 * * *", "zone": "Europe/Berlin"}, 3_600),
    ],
)
def test_a_request_is_due_when_it_says(asked, later):
    assert first(**asked) == NOW + later * NS


def test_what_is_due_once_is_not_due_again():
    once = Once(NOW)
    assert (once.next(NOW - 1), once.next(NOW), once.next(NOW + 1)) == (NOW, None, None)


def test_what_comes_again_is_due_after_each_time():
    daily = schedule_of(now=NOW, cron="0 0 * * *")
    assert isinstance(daily, Cron)
    assert daily.next(NOW) == NOW + 86_400 * NS


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"run_at": "2026-01-01T00:00:00"}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"run_at": datetime(2026, 1, 1)}, "run_at"),  # noqa: DTZ001 - a datetime without a zone is the point
        ({"run_at": 1_767_225_600}, "run_at"),
        ({"delay": -1}, "delay"),
        ({"delay": "off"}, "delay"),
        ({"cron": "daily"}, "cron"),
        ({"zone": "UTC"}, "it belongs to cron"),
        ({"delay": 1, "cron": "* * * * *"}, "cron cannot be used: delay is given too"),
        ({"run_at": "2026-01-01T00:00:00Z", "delay": 1}, "delay cannot be used: run_at is given too"),
    ],
)
def test_what_cannot_be_used_is_named(asked, named):
    with pytest.raises(OptionsError, match=named):
        schedule_of(now=NOW, **asked)
