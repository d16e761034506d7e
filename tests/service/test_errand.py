"""Errand: what an attempt came to, by the rules of its delivery, stands in its row. A scripted transport, a real file, still clocks."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from comity.engine.clock import RealClock
from comity.policy.host_rules import HostRules
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.errand import Errand, Setting
from comity.service.origins import Origins
from comity.service.terms import Terms
from comity.store.records import Ended, NewDelivery
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.testing import ScriptedTransport
from comity.testing.scripted_transport import Answer

NOW = 1_767_225_600 * NS
LATER = NOW + 10**9 * NS
ORIGIN = "https://a.example"
LAST = 1 - 2**-53
BEFORE = {
    500: Ended(then="retry", status=500),
    429: Ended(then="retry", status=429, refused=True),
}


class Still(RealClock):
    """A clock that stands."""

    def now(self):
        return NOW

    wall = now


class Connecting(ScriptedTransport):
    """Never gets so far as to send."""

    def __init__(self):
        super().__init__()
        self.connecting = asyncio.Event()

    async def open(self, request, limits, slot):
        self.requests.append(request)
        self.connecting.set()
        await asyncio.Event().wait()


class Line:
    """Where errands set out, one by one."""

    def __init__(self, store, draw):
        self.store, self._draw = store, draw

    async def through(self, entry, *, before=(), mode="at_least_once", deadline=None, **terms):
        """Return a delivery and its attempt after an answer, when attempts had these statuses before."""
        asked = Terms(**terms)
        new = NewDelivery(
            origin=ORIGIN, method="POST", url=f"{ORIGIN}/x", headers=b"{}", options=asked.stored(), mode=mode,
            deadline=deadline, max_attempts=asked.max_retries + 1,
        )  # fmt: skip
        (made,) = await self.store.submit([new])
        transport, clock = entry if isinstance(entry, ScriptedTransport) else ScriptedTransport(entry), Still()
        origins = Origins(self.store, HostRules(Policy(learn=None), {}), clock, draw=lambda: self._draw)
        lease = await self.store.register("w", 10**6 * NS)
        await origins.own(lease, 1)
        for status in before:
            claim = await self._claim(lease)
            await self.store.begin(claim)
            await self.store.finish(claim, BEFORE[status])
        setting = Setting(store=self.store, transport=transport, clock=clock)
        errand = Errand(setting, await self._claim(lease), origins, lambda: (lease, LATER), 0)
        if isinstance(transport, Connecting):
            await transport.connecting.wait()
            errand.cut("stopped")
        await errand.task
        assert len(transport.requests) == 1
        return await self.store.get(made.id), (await self.store.attempts(made.id))[-1]

    async def _claim(self, lease):
        (claim,) = (await self.store.claim(lease, 1)).claims
        return claim


@asynccontextmanager
async def line(directory, draw=0.5):
    migrate(directory / "s.db")
    store = SqliteStore(directory / "s.db", clock=lambda: NOW)
    yield Line(store, draw)
    await store.close()


async def after(directory, entry, draw=0.5, **options):
    async with line(directory, draw) as made:
        return await made.through(entry, **options)


def waits(found):
    return (found.due_at - NOW) / NS


@pytest.mark.parametrize(
    ("retries", "low", "base", "high"),
    [(0, 0.8, 1, 1.2), (1, 1.6, 2, 2.4), (2, 3.2, 4, 4.8), (3, 6.4, 8, 9.6)],
)
async def test_waits_double_from_twice_the_base_and_are_spread_by_a_fifth(tmp_path, retries, low, base, high):
    """NP-018..024: the row says when the next one is due."""
    for number, (draw, wait) in enumerate(((0.0, low), (0.5, base), (LAST, high))):
        (tmp_path / str(number)).mkdir()
        found, attempt = await after(tmp_path / str(number), 500, draw, before=[500] * retries, backoff_ms=500)
        assert (found.state, attempt.decision, waits(found)) == ("retrying", "retrying", pytest.approx(wait))


@pytest.mark.parametrize("retries", [1, 3])
async def test_a_server_error_is_retried_as_often_as_was_said(tmp_path, retries):
    """NP-005, NP-024: with the reason and the last error."""
    found, attempt = await after(tmp_path, 503, before=[500] * retries, max_retries=retries)
    assert (found.state, found.reason, found.error) == ("failed", "attempts", "HTTP 503")
    assert attempt.number == retries + 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 451])
@pytest.mark.parametrize("strict", [False, True])
async def test_a_4xx_is_final(tmp_path, status, strict):
    """NP-025"""
    found, _ = await after(tmp_path, status, strict_4xx=strict)
    assert (found.state, found.reason, found.error) == ("failed", "status", f"HTTP {status}")


@pytest.mark.parametrize("status", [408, 425, 429])
@pytest.mark.parametrize(("strict", "state"), [(True, "failed"), (False, "retrying")])
async def test_those_that_ask_for_another_try_are_final_when_the_letter_is_wanted(tmp_path, status, strict, state):
    """NP-025"""
    found, _ = await after(tmp_path, status, strict_4xx=strict)
    assert found.state == state


@pytest.mark.parametrize("entry", [500, "lost", "connect", Answer(after=60)])
async def test_strictness_concerns_4xx_alone(tmp_path, entry):
    found, _ = await after(tmp_path, entry, strict_4xx=True, timeout_ms=1)
    assert found.state == "retrying"


@pytest.mark.parametrize(
    ("entry", "state"),
    [("connect", "retrying"), (429, "retrying"), (500, "failed"), ("lost", "failed"), (408, "failed")],
)
async def test_at_most_once_sends_again_only_what_surely_was_not_taken(tmp_path, entry, state):
    found, _ = await after(tmp_path, entry, mode="at_most_once")
    assert (found.state, found.reason) == (state, "outcome unknown" if state == "failed" else None)


@pytest.mark.parametrize(
    ("status", "state"), [(200, "completed"), (204, "completed"), (304, "completed"), (302, "failed")]
)
async def test_an_answer_below_400_completes_it_unless_it_leads_elsewhere(tmp_path, status, state):
    """NP-027"""
    assert (await after(tmp_path, status))[0].state == state


async def test_what_would_be_due_at_the_deadline_or_later_fails(tmp_path):
    """NP-018"""
    found, _ = await after(tmp_path, 500, deadline=NOW + 2 * NS)
    assert (found.state, found.reason) == ("failed", "deadline")


@pytest.mark.parametrize(
    ("before", "hint", "wait"),
    [
        ([], 3, 3),  # the first: exactly what the server says, though the backoff is 2 s
        ([429], 3, 4),  # the second in a row: the backoff, as it is longer
        ([429], 5, 5),  # or what the server says, if that is
        ([429, 429], 3, 8),
        ([429, 500], 3, 3),  # another outcome between ends the row
        ([500, 500], 3, 3),  # and counts in a schedule of its own
        ([429, 429], None, 8),
    ],
)
async def test_from_the_second_refusal_in_a_row_on_the_wait_is_the_longer_of_hint_and_backoff(
    tmp_path, before, hint, wait
):
    """Refusals are counted apart: they have a row, and a place in the backoff, of their own."""
    headers = {} if hint is None else {"Retry-After": str(hint)}
    found, _ = await after(tmp_path, Answer(429, headers=headers), before=before)
    assert (found.state, waits(found)) == ("retrying", pytest.approx(wait))


@pytest.mark.parametrize(("refusals", "state"), [(9, "retrying"), (10, "failed")])
async def test_refusals_are_waited_out_besides_the_retries_up_to_10(tmp_path, refusals, state):
    """NP-005: one retry is left for faults, however often it was refused."""
    found, _ = await after(tmp_path, 429, before=[429] * refusals, max_retries=1)
    assert (found.state, found.reason) == (state, "refusals" if state == "failed" else None)


async def test_what_nobody_foresaw_ends_the_delivery_and_not_the_worker(tmp_path, caplog):
    """WC-03: the row says what it was, without its secrets, and the log where."""

    def mistake(_request):
        raise RuntimeError("a mistake of ours, token=hunter2")

    found, attempt = await after(tmp_path, mistake)
    assert (found.state, found.reason, attempt.sent) == ("failed", "invalid", "no")
    assert found.error == "RuntimeError: a mistake of ours, token=***"
    assert "Traceback" in caplog.text


async def test_what_is_cut_short_before_its_first_byte_goes_back(tmp_path):
    """At most once, too: nothing can have arrived."""
    found, attempt = await after(tmp_path, Connecting(), mode="at_most_once")
    assert (found.state, attempt.decision, attempt.sent) == ("retrying", "unsent", "no")
