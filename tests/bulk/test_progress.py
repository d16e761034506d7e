"""Tally, progress, report: what people are told."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime, timedelta

import pytest

from comity.bulk.clock_text import clock_text
from comity.bulk.failures import Failures
from comity.bulk.outlook import Outlook
from comity.bulk.progress import Progress
from comity.bulk.report import Report
from comity.bulk.resume import FoundBefore
from comity.bulk.tally import Tally
from comity.engine.stats import HostStats, Stats
from comity.errors import OptionsError, StoreError
from comity.policy.options import Policy
from comity.policy.units import NS

LATER = datetime.now(UTC) + timedelta(hours=1)


def report(**options) -> Report:
    given = {"tally": Tally(ok=1, sent=1), "before": FoundBefore(), "seconds": 1.0}
    return Report(**(given | options))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.44, "0.4 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59, "59 s"),
        (61, "1:01"),
        (3600, "1:00:00"),
        (90061, "25:01:01"),
    ],
)
def test_times_are_told_as_people_read_them(seconds, text):
    assert clock_text(seconds) == text


def test_the_rate_is_that_of_the_last_ten_seconds():
    tally = Tally()
    for second in range(30):
        tally.sent = second * 2 if second < 15 else 30 + (second - 15) * 10
        rate = tally.rate(second * NS)
    assert rate == pytest.approx(10)


def test_a_line_tells_progress_rate_and_what_is_left():
    tally = Tally(lines=1001, skipped=1, before=100)
    shown = Progress(tally, limit="50/5s", stream=io.StringIO())
    shown.line(0)
    tally.ok, tally.failed, tally.sent, tally.refused, tally.in_flight = 95, 5, 100, 3, 7
    assert shown.line(10 * NS) == "200/1,000  10.0/s of 50/5s  7 in flight  5 failed  3 x 429  ETA 1:20"


def test_the_first_moments_tell_no_speed_and_the_limits_tell_the_time():
    tally = Tally(lines=500)
    shown = Progress(tally, limit="50/5s", least=lambda rows: rows / 10, why=lambda: "waiting", stream=io.StringIO())
    assert shown.line(0) == "0/500  at most 50/5s  waiting  0 x 429  ETA 50 s"
    tally.ok = tally.sent = 50
    assert shown.line(NS // 10) == "50/500  at most 50/5s  waiting  0 x 429  ETA 45 s"
    assert shown.line(2 * NS) == "50/500  25.0/s of 50/5s  waiting  0 x 429  ETA 45 s"


@pytest.mark.parametrize(
    ("policies", "seconds"),
    [
        ([Policy(rate="50/5s")], 10),
        ([Policy(rate=["50/5s", "60/min", "1 tokens/min"])], 100),
        ([Policy(min_gap=0.5)], 50),
        ([Policy()], 0),
        ([Policy(rate="50/5s"), Policy(rate="50/5s")], 0),
        ([], 0),
    ],
)
def test_limits_tell_how_long_rows_take_at_least(policies, seconds):
    seen = {f"host {number}": policy for number, policy in enumerate(policies)}
    assert Outlook(seen, Stats).least(100) == seconds


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (HostStats(queued=3, reason="retry-after", held_for=3.04), "paused 3 s (Retry-After)"),
        (HostStats(queued=3, running=1, reason="refused", held_for=0.5), "paused 0.5 s (429)"),
        (HostStats(queued=3, reason="breaker open", held_for=5), "paused 5 s (it only fails, next probe then)"),
        (HostStats(queued=3, running=1, reason="rate law", held_for=0.02), ""),
        (HostStats(queued=3, reason="rate law", held_for=0.02), "waiting for the rate"),
        (HostStats(queued=3), "waiting for the rate"),
        (HostStats(), ""),
    ],
)
def test_a_run_says_what_it_waits_for(host, why):
    assert Outlook({"a": Policy()}, lambda: Stats.of({"a": host})).why() == why


def test_a_line_tells_briefly_what_was_learned_and_why_nothing_starts():
    host = HostStats(queued=3, running=1, limit=6.8, rate=38.4, reason="retry-after", held_for=3.0)
    outlook = Outlook({"a": Policy(concurrency=20)}, lambda: Stats.of({"a": host}))
    shown = Progress(Tally(lines=10, in_flight=1), why=outlook.why, learned=outlook.learned, stream=io.StringIO())
    assert shown.line(0) == "0/10  1 in flight  limit 6/20  ~38/s  paused 3 s (Retry-After)  0 x 429"


@pytest.mark.parametrize(
    ("host", "concurrency", "text"),
    [
        (HostStats(limit=6.8, rate=38.4), 20, ["found: about 38 requests/s, 6 at once"]),
        (HostStats(limit=20.0), 20, ["found: at least 20 at once"]),
        (HostStats(limit=20.0), None, ["found: 20 at once"]),
        (HostStats(rate=0.25), 20, ["found: about 0.25 requests/s"]),
        (HostStats(), 20, []),
    ],
)
def test_the_end_tells_the_limits_that_were_found(host, concurrency, text):
    outlook = Outlook({"a": Policy(concurrency=concurrency)}, lambda: Stats.of({"a": host}))
    assert outlook.found() == text
    assert set(text) <= set(report(found=text).lines())


def test_of_several_hosts_each_is_told_by_name_up_to_ten():
    hosts = {f"host {number}": HostStats(rate=40.0) for number in range(12)}
    outlook = Outlook({}, lambda: Stats.of(hosts))
    assert outlook.learned() == []
    lines = outlook.found()
    assert (len(lines), lines[0], lines[-1]) == (
        11,
        "found at host 0: about 40 requests/s",
        "found: the limits of 2 more hosts",
    )


def test_failures_are_grouped_with_the_first_of_each_kind():
    failures = Failures()
    for line in range(5, 25):
        failures.note("ConnectFailed", line, f"no connection to host {line}")
    failures.note("invalid", 30, "line 30, field url: it is missing")
    failures.note("404", 31)
    assert failures.text() == (
        "20 x ConnectFailed (first: line 5: no connection to host 5), "
        "1 x invalid (first: line 30, field url: it is missing), 1 x 404 (first: line 31)"
    )
    for status in range(405, 412):
        failures.note(str(status), status)
    assert failures.text().endswith(", 5 of 5 other kinds")


def test_kinds_of_failures_are_bounded():
    failures = Failures()
    for line in range(3000):
        failures.note(f"kind {line}", line)
    assert len(failures._first) <= 1001


def test_a_run_without_anything_left_says_so():
    assert (
        report(tally=Tally(), before=FoundBefore(finished=20)).lines()[0] == "nothing to do: all 20 rows are finished"
    )


def test_without_a_total_the_line_tells_what_is_done():
    assert Progress(Tally(ok=7), stream=io.StringIO()).line(0).startswith("7 done")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, 0),
        ({"tally": Tally(failed=1)}, 1),
        ({"before": FoundBefore(finished=2, failed=1)}, 1),
        ({"error": StoreError("full")}, 1),
        ({"error": OptionsError("INPUT", "x", "y"), "tally": Tally()}, 2),
        ({"error": OptionsError("INPUT", "x", "y")}, 3),
        ({"error": EOFError("cut")}, 3),
        ({"resume_at": LATER, "tally": Tally(failed=1)}, 75),
        ({"stopped": True, "resume_at": LATER}, 130),
    ],
)
def test_the_exit_code_tells_how_it_ended(options, code):
    assert report(**options).exit_code == code


def test_a_report_says_how_to_go_on():
    text = "\n".join(
        report(resume_at=LATER, tally=Tally(undone=3), before=FoundBefore(finished=9, failed=2, unknown=1)).lines()
    )
    for part in (
        "finished earlier 9, 2 of them not ok",
        "--resend-unknown",
        f"resume after {LATER:%Y-%m-%d %H:%M:%S} UTC",
        "3 rows",
    ):
        assert part in text
    assert "the same command goes on" in text
    assert "without -o" in "\n".join(report(stopped=True, resumable=False).lines())


class Watched(io.StringIO):
    """A stream that tells when a text was written to it."""

    def __init__(self, text, *, terminal):
        super().__init__()
        self.text, self.terminal = text, terminal
        self.seen = asyncio.Event()

    def isatty(self):
        return self.terminal

    def write(self, text):
        super().write(text)
        if self.text in self.getvalue():
            self.seen.set()
        return len(text)


async def test_plain_progress_writes_lines():
    stream = Watched("3 done", terminal=True)
    async with Progress(Tally(ok=3), kind="plain", stream=stream, every=0.001).shown():
        await stream.seen.wait()
    assert stream.getvalue().endswith("\n")


async def test_progress_that_is_off_writes_nothing():
    stream = io.StringIO()
    shown = Progress(Tally(ok=3), kind="off", stream=stream, every=0.0)
    async with shown.shown():
        await asyncio.sleep(0)
    assert not stream.getvalue()


async def test_a_terminal_gets_a_live_line():
    stream = Watched("3/10", terminal=True)
    async with Progress(Tally(lines=10, ok=3), limit="5/s", stream=stream, every=0.001).shown():
        await stream.seen.wait()
    assert "at most 5/s" in stream.getvalue()
