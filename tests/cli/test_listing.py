"""Listing: JSON lines for programs, tables and lines on a terminal."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout

import pytest

from comity.cli import listing

DELIVERY = {
    "id": "019b0f4e-5b7a-7cc0-8d2e-3f1c5a6b7d80", "status": "failed", "sending": False, "createdAt": "2020-12-24T18:00:00.000Z",
    "method": "POST", "url": "https://api.example.com/[red]/" + "long" * 20, "lastError": "HTTP 503 \x1b[31m", "reason": "attempts",
    "lane": "mail", "priority": 5, "delivery": "at_least_once", "idempotencyKey": None, "schedule": None, "callbackUrl": None,
    "dueAt": "2020-12-24T18:00:00.000Z", "deadline": None, "endedAt": "2020-12-24T18:00:01.000Z",
    "attempts": [{"attemptNumber": 1, "madeAt": "2020-12-24T18:00:00.500Z", "delayBeforeMs": 500, "waitedMs": 40,
                  "error": "HTTP 503", "statusCode": 503, "decision": "failed"}],
    "result": {"statusCode": 503, "size": 9, "truncated": True, "body": "gone\x1b[2J"},
}  # fmt: skip
LANE = {
    "key": "mail", "paused": True, "ordered": True, "originPausedUntil": None, "originBlockedUntil": None, "limits": {"rate": ["5/s"]},
    "counts": {"pending": 2, "failed": 0},
}  # fmt: skip
EVENT = {
    "at": "2026-12-24T18:00:00.000Z", "kind": "failed", "delivery": "ID", "lane": "mail", "origin": "https://api.example.com",
    "statusCode": 404, "note": "status",
}  # fmt: skip


class Terminal(io.StringIO):
    """A standard output at which somebody sits."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


def printed(call, *given, out=Terminal, as_json=False):
    """Return what is printed there."""
    with redirect_stdout(out()) as stream:
        call(*given, as_json=as_json)
    return stream.getvalue()


def test_on_a_terminal_a_list_is_a_table_with_whole_ids_of_lines_that_fit():
    head, first, *more = printed(listing.rows, [DELIVERY], listing.DELIVERIES).splitlines()
    assert head.split() == ["id", "status", "age", "request", "why"]
    assert first.split()[:2] == [DELIVERY["id"], "failed"]
    assert more
    assert max(map(len, (head, first, *more))) <= 80


def test_lanes_tell_how_they_stand():
    blocked = LANE | {"originBlockedUntil": "2026-12-24T18:00:00.000Z"}
    told = printed(listing.rows, [LANE, blocked, LANE | {"key": "[red]"}], listing.LANES)
    for part in ("paused ordered", "2 pending", '{"rate":', "blocked until 2026-12-24 18:00:00", "[red]"):
        assert part in told


def test_a_delivery_is_shown_with_its_attempts_and_its_answer():
    told = printed(listing.delivery, DELIVERY)
    for part in ("  lastError       HTTP 503", "2020-12-24 18:00:00  500", "503, 9 bytes, of which this is", "gone"):
        assert part in told
    assert "deadline" not in told


def test_an_event_is_a_line():
    assert printed(listing.event, EVENT) == "2026-12-24 18:00:00 failed       ID mail HTTP 404 status\n"


def test_what_others_sent_cannot_steer_the_terminal():
    told = printed(listing.delivery, DELIVERY) + printed(listing.rows, [DELIVERY], listing.DELIVERIES)
    assert "\x1b" not in told


@pytest.mark.parametrize(("out", "as_json"), [(Terminal, True), (io.StringIO, False)])
def test_programs_and_who_asks_for_it_get_json_lines(out, as_json):
    for call, *given in ((listing.rows, [LANE], listing.LANES), (listing.delivery, LANE), (listing.event, LANE)):
        assert json.loads(printed(call, *given, out=out, as_json=as_json)) == LANE
