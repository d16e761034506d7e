"""Errand: one claim on its way: its turn, its attempt, and what the store is told of that.

    claim ─► the limiter's grant ─► the attempt's row, committed ─► first byte ─► answer ─► end, committed

Whatever cuts it short before the first byte gives the claim back, as if it had never been; after that the attempt has an end,
which may be that nobody knows what became of it. `decide`, inside the engine, is what says whether another attempt follows;
here its time becomes the row's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import lru_cache, partial
from typing import Literal

import msgspec

from comity import redact
from comity.client.codings import ACCEPTED
from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response
from comity.client.transport import Transport
from comity.client.user_agent import user_agent
from comity.engine.call import Call, Exchange, Settled, Slot
from comity.engine.clock import Clock
from comity.engine.moments import seconds_text
from comity.errors import (
    ClientClosed,
    ComityError,
    HostBlocked,
    InvalidRequest,
    LeaseLost,
    OptionsError,
    QueueFull,
    QueueTimeout,
    StoreError,
    TimedOut,
)
from comity.policy.outcome import Outcome
from comity.policy.retry import Done, GiveUp, RetryAt
from comity.policy.timeouts import Timeout
from comity.policy.units import NS
from comity.service.capture import KEPT, capture
from comity.service.log import Seldom, log
from comity.service.origins import Origins, OwnedOrigin, host_of
from comity.service.part import part_of
from comity.service.retry_rules import RetryRules
from comity.service.signature import Signer
from comity.service.terms import Terms
from comity.service.turn import Turn
from comity.service.vault import KeyMissing, Vault
from comity.store.base import Store
from comity.store.records import Answer, Claim, Ended, Lease, Mode

CALLBACKS = "callbacks "
"""What the lanes of callbacks are called, before the name of the origin; what stands there is signed."""

PATIENCE = 5 * NS
"""So long a claim waits for its turn; then it goes back, so that its slot is of use to other lanes."""

_HELD_PATIENCE = NS // 2
"""The same while the path that it is for is held and others of its lane may not be: nothing else in a lane waits for it."""

_AGAIN = 1 * NS
"""When to try again what the store would not take, or what found no turn for no reason that names a time."""

_UNKEYED = 60 * NS
"""When to try again what was sealed with a key that is not configured here."""

_LATER = 10 * NS
"""When to try again at the latest what its limits let start later still: they may be changed until then."""

Cut = Literal["cancelled", "stopped", "lost"]
"""Why an errand is cut short: somebody cancelled the delivery; the worker stops; the lease is lost."""

_REASONS = {"method": "outcome unknown"}
"""`decide` says why in the words of a call."""

_DEFAULTS = Headers([("Accept", "*/*"), ("Accept-Encoding", ACCEPTED), ("User-Agent", user_agent(None))])

Tell = Callable[[], Awaitable[object]]

_SAID: dict[Cut, str] = {
    "cancelled": "cut short, as the delivery was cancelled",
    "stopped": "cut short, as the worker was stopped",
    "lost": "",
}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What all errands of a worker have in common.

    Args:
        store, transport, clock: where claims come from, what sends, and what time it is.
        timeout: how long an attempt may take, unless the delivery says so.
        keep: bytes of an answer's body that are kept.
        patience: ns that a claim waits for its turn.
        signer: signs callbacks and what asks for it; without it they wait for a worker that has one.
        vault: opens the secrets among the headers.
        seldom: for what would be said of each delivery.
    """

    store: Store
    transport: Transport
    clock: Clock
    timeout: Timeout = msgspec.field(default_factory=Timeout)
    keep: int = KEPT
    patience: int = PATIENCE
    signer: Signer | None = None
    vault: Vault = msgspec.field(default_factory=Vault)
    seldom: Seldom = msgspec.field(default_factory=lambda: Seldom(60 * NS))


class Errand:
    """One of them; it sets out at once.

    Args:
        setting: what it has in common with others.
        claim: what it is about.
        origins: of the worker.
        lease: the worker's, and until when it surely lasts, ns on the engine's clock.
        shift: what the store's clock is ahead of the engine's, ns.

    Attributes:
        task: what it runs in.
    """

    def __init__(
        self, setting: Setting, claim: Claim, origins: Origins, lease: Callable[[], tuple[Lease, int]], shift: int
    ) -> None:
        self.claim = claim
        self._setting, self._origins, self._lease, self._shift = setting, origins, lease, shift
        self._store, self._clock = setting.store, setting.clock
        self._slot: Slot | None = None
        self._answer: Answer | None = None
        self._over = 0
        self._ending = False
        self._unwritten: Tell | None = None
        self._arrive: Callable[[], None] = _nothing
        self._cut: Cut | None = None
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"errand {claim.id}")

    @property
    def under_way(self) -> bool:
        """Whether its attempt has begun; before that it can be given back without a trace."""
        return self._slot is not None

    def cut(self, why: Cut) -> asyncio.Task[None]:
        """Cut it short, and return its task, which is over soon.

        One whose attempt is over is left to tell the store so, unless the lease is lost.
        """
        if self._cut is None or why == "lost":
            self._cut = why
            if not self._ending or why == "lost":
                self.task.cancel()
        return self.task

    async def _run(self) -> None:
        try:
            await self._deliver()
        finally:
            self._arrive()

    async def _deliver(self) -> None:
        try:
            tell = await self._whole()
        except asyncio.CancelledError:
            if self._cut is None:
                raise
            tell = self._cut_short(self._cut)
        except LeaseLost as lost:
            log.info("%s", lost)
            return
        self._ending = True
        if self._cut != "lost":
            await self._tell(tell, f"the end of an attempt of {self.claim.id}")
            if self._unwritten is not None:
                await self._tell(self._unwritten, f"what {self.claim.origin} taught")

    async def _whole(self) -> Tell:
        """Return what the store is to be told, whatever happens: no row may end a worker, which others need."""
        try:
            return await self._go()
        except (StoreError, MemoryError):  # not of this row
            raise
        except Exception as error:  # noqa: BLE001 - as the docstring says; the log and the row have it
            log.exception("%s cannot be sent, for a reason that nobody foresaw", self.claim.id)
            return await self._refused(error)

    async def _go(self) -> Tell:
        """Return what the store is to be told."""
        origin = await self._origins.get(self.claim.origin)
        if origin is None:
            return self._back()
        prepared = await self._prepared()
        if not isinstance(prepared, tuple):
            return prepared
        request, rules, limits = prepared
        try:
            async with await self._turn() as turn:
                send = partial(self._send, origin, request, limits, turn)
                settled = await origin.engine.run(self._call(request, rules, origin), send)
        except (ComityError, _Stale) as error:
            return self._unsent(error)
        write = partial(self._origins.write, self._lease()[0], origin, self._why(settled.outcome))
        try:
            await write()
        except StoreError as error:
            # This attempt's end is to be told first. Then again, as a pause lets no other attempt bring it up.
            log.warning("what %s taught could not be written: %s", origin.name, error)
            self._unwritten = write
        return self._end(self._ended(settled, rules))

    async def _prepared(self) -> tuple[Request, RetryRules, Timeout] | Tell:
        """Return what the claim asks for, or, when it cannot be sent, what the store is to be told."""
        claim, setting = self.claim, self._setting
        try:
            terms = Terms.read(claim.options)
            signs = terms.signed or claim.lane.startswith(CALLBACKS)
            if signs and setting.signer is None:
                return self._waits(CALLBACKS, "set COMITY_CALLBACK_SECRETS for this worker too")
            limits = setting.timeout if terms.timeout_ms is None else Timeout.of(terms.timeout_ms / 1_000)
            return self._request(setting.signer if signs else None), _rules(terms, claim.mode), limits
        except KeyMissing as missing:  # a wrong configuration loses nothing: it waits until that is put right
            return self._waits(missing.key, str(missing))
        except (OptionsError, InvalidRequest, StoreError) as error:
            return await self._refused(error)

    def _waits(self, key: str, why: str) -> Tell:
        if self._setting.seldom.may(key, self._clock.now()):
            log.error("%s waits, as does whatever else needs the same: %s", self.claim.id, why)
        return self._back(_UNKEYED, why)

    async def _refused(self, error: Exception) -> Tell:
        """Return what to tell of a delivery that no request can be made of; an attempt is where an error stands."""
        said = redact.text(_said(error))
        if self._slot is None:
            try:
                await self._store.begin(self.claim)
            except StoreError as away:
                return self._unsent(away)
            return self._end(Ended(then="failed", reason="invalid", error=said, sent="no"))
        ago = self._sent_ago(self._clock.now())
        sent: Literal["maybe", "no"] = "no" if ago is None else "maybe"
        return self._end(Ended(then="failed", reason="invalid", error=said, sent=sent, sent_ago=ago))

    def _unsent(self, error: Exception) -> Tell:
        """Return what to tell when its turn did not come, or its attempt's row could not be written.

        Raises:
            Exception: the error itself, when it is none of these.
        """
        wait = _later(error)
        if isinstance(error, StoreError):
            log.warning("the attempt of %s could not begin: %s", self.claim.id, error)
        return self._back(wait)

    def _request(self, signer: Signer | None) -> Request:
        claim = self.claim
        headers = list(self._setting.vault.open(claim).items())
        if signer is not None:
            at = self._clock.now() + self._shift
            headers += signer.headers(claim.id, at, claim.body or b"").items()
        # The key is the same over all attempts and replays, so that a receiver can tell a repetition from something new.
        key = claim.idempotency_key or claim.id
        return Request(
            claim.method, claim.url, headers=headers, content=claim.body, idempotency_key=key, defaults=_DEFAULTS
        )

    def _call(self, request: Request, rules: RetryRules, origin: OwnedOrigin) -> Call:
        claim, patience = self.claim, self._setting.patience
        part = part_of(claim.lane, claim.origin, claim.url)
        if part != claim.lane and origin.holds(part):
            patience = min(patience, _HELD_PATIENCE)
        deadline = None if claim.deadline is None else claim.deadline - self._shift
        so_far = rules.call(
            attempts=claim.attempts,
            refusals=claim.refusals,
            refusals_in_a_row=claim.refusals_in_a_row,
            deadline=deadline,
            started=claim.enqueued_at - self._shift,
        )
        return Call(
            host=host_of(claim.origin),
            retry=rules.retry,
            request=request,
            priority=claim.priority,
            deadline=deadline,
            queue_timeout=patience,
            part=part,
            so_far=so_far,
        )

    async def _turn(self) -> Turn | AbstractAsyncContextManager[None]:
        """Return what the lane lets it pass by."""
        gate = await self._origins.lane(self.claim.lane, self.claim.origin)
        return nullcontext() if gate is None else Turn(gate, self.claim.priority, self._setting.patience)

    async def _send(
        self, origin: OwnedOrigin, request: Request, limits: Timeout, turn: Turn | None, slot: Slot
    ) -> Exchange[Response]:
        """Commit the attempt's row and send: the turn has come, and is kept meanwhile."""
        self._arrive = self._origins.depart(self.claim.origin, self.claim.lane)
        await self._store.begin(self.claim)
        self._slot = slot
        if turn is not None:
            turn.counts(slot)
        if self._clock.now() >= self._lease()[1]:  # this process stood still, and others may send it by now
            raise _Stale
        setting = self._setting
        exchange, self._answer = await capture(
            setting.transport, request, limits, slot, keep=setting.keep, hidden=setting.vault.is_secret
        )
        self._over, self._ending = self._clock.now(), True
        if exchange.outcome.refused or exchange.outcome.retry_after is not None:
            origin.held_by = self._why(exchange.outcome)
        return exchange

    def _ended(self, settled: Settled[Response], rules: RetryRules) -> Ended:
        """Return what the store is told about an attempt that ended by itself."""
        assert self._slot is not None
        outcome, decision, now = settled.outcome, settled.decision, self._clock.now()
        timings = settled.attempts[-1].timings
        status, answered = outcome.status, None
        if self._answer is not None:
            status = self._answer.status
            answered = now - self._over + round(timings.download * NS)
        then: Literal["completed", "failed", "retry"] = "failed"
        wait, reason = 0, None
        if isinstance(decision, RetryAt) and not (rules.strict_4xx and status is not None and 400 <= status < 500):
            then, wait = "retry", max(0, decision.at - now)
        elif isinstance(decision, GiveUp):
            reason = _REASONS.get(decision.reason, decision.reason)
        elif isinstance(decision, Done) and status is not None and (200 <= status < 300 or status == 304):
            then = "completed"
        else:
            reason = "status"
        return Ended(
            then=then,
            wait=wait,
            reason=reason,
            status=status,
            error=_error(status, settled),
            refused=outcome.refused,
            sent=outcome.sent,
            sent_ago=self._sent_ago(now),
            answered_ago=answered,
            retry_after=self._slot.retry_after,
            timings=msgspec.json.encode(timings.as_dict()),
            answer=self._answer,
        )

    def _why(self, outcome: Outcome) -> str:
        """Return what is said of an answer that holds its origin."""
        said = outcome.failure or f"HTTP {outcome.status}"
        if outcome.retry_after is not None:
            said += f", Retry-After {seconds_text(outcome.retry_after / NS)} s"
        return f"{said}, to {self.claim.id}"

    def _cut_short(self, why: Cut) -> Tell:
        if self._slot is None or not self._slot.begun:
            return self._back()
        ago = self._sent_ago(self._clock.now())
        return self._end(Ended(then="retry", error=_SAID[why], sent="maybe", sent_ago=ago))

    def _sent_ago(self, now: int) -> int | None:
        assert self._slot is not None
        return now - self._slot.ticket.started_at if self._slot.begun else None

    def _end(self, ended: Ended) -> Tell:
        return lambda: self._store.finish(self.claim, ended)

    def _back(self, wait: int = 0, error: str | None = None) -> Tell:
        return lambda: self._store.give_back([self.claim], wait, error)

    async def _tell(self, tell: Tell, what: str) -> None:
        """Tell the store, again and again while it does not take part: what became of a send is not to be lost."""
        while True:
            try:
                await tell()
            except LeaseLost as lost:
                log.info("%s", lost)
            except StoreError as error:
                if error.reason == "closed":
                    raise
                log.warning("%s could not be written: %s", what, error)
                await asyncio.sleep(_AGAIN / NS)
                continue
            return


def _nothing() -> None:
    """Nothing has departed yet."""


class _Stale(Exception):
    """The lease may have run out between the grant and the first byte."""


def _later(error: Exception) -> int:
    """Return in how many ns to try again what was not sent; raise what is no reason to."""
    match error:
        case LeaseLost():
            raise error
        case HostBlocked():  # the origin's row keeps the others back, until somebody lifts that
            return min(_AGAIN, round(error.retry_after * NS))
        case QueueTimeout(needed=float(needed)):
            return min(_LATER, round(needed * NS))
        case TimedOut():  # its deadline passed in the queue, and whoever claims it next fails it
            return 0
        case QueueTimeout() | QueueFull() | ClientClosed() | StoreError() | _Stale():
            return _AGAIN
        case _:
            raise error


@lru_cache(maxsize=1024)
def _rules(terms: Terms, mode: Mode) -> RetryRules:
    return terms.rules(mode)


def _error(status: int | None, settled: Settled[Response]) -> str | None:
    if status is not None and not 200 <= status < 300:
        return f"HTTP {status}"
    return None if settled.error is None else _said(settled.error)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
