"""Runner: takes rows from the reader, sends them through the client and hands results to the sink.

Rows move through three bounded places: the backlog (read, by limiter), the workers of a lane (as many as the host's
concurrency, besides rows that wait for another attempt) and the sink. So memory does not grow with the input, and a
host that is slow, paused or blocked holds up its own rows alone as long as the backlog has room.

Stopping. `drain` reads and starts no more; rows on the wire come to their end; rows that were never sent or that wait for
another attempt are left undone.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from comity.bulk.backlog import Backlog, Lane
from comity.bulk.reader import Reader
from comity.bulk.results import Result, of_error, of_invalid, of_response, of_unknown
from comity.bulk.rows import Invalid, Row
from comity.bulk.sink import Sink
from comity.bulk.table import Record
from comity.bulk.tally import Tally
from comity.bulk.watched import CURRENT
from comity.client.async_client import AsyncClient
from comity.client.options import RequestOptions
from comity.errors import InvalidRequest, Limited, OptionsError, RequestError, StoreError
from comity.policy.host_rules import HostRules
from comity.policy.options import Policy

_TAKE = 256
_MANY_LANES = 10_000
UNLIMITED = 500
"""Rows under way at once where no concurrency is set."""

EXPECTED_ERRORS = (OSError, EOFError, zlib.error, OptionsError, StoreError)
"""What ends a run and is told as it is; anything else is a fault of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How rows are to be treated.

    Args:
        rules: the limits of each row; as many rows may be under way at once as their concurrency allows.
        keep_body: whether bodies go into results.
        longest_wait: seconds of a server's wait beyond which its host counts as blocked; None: any is waited for.
        key: row -> the options that carry its idempotency key.
        ahead: how many rows an ordered output may be ahead; 0 without order.
        resend_unknown: whether rows of unknown outcome are sent again.
    """

    rules: HostRules
    keep_body: bool = True
    longest_wait: float | None = 60.0
    key: Callable[[Row], RequestOptions] | None = None
    ahead: int = 0
    resend_unknown: bool = False


class Runner:
    """One run.

    Args:
        client: sends.
        reader: gives the rows; its `admit` is `self.admit`.
        sink: takes the results; its journal, if it has one, is the run's.
        tally: counts.
        plan: how rows are treated.

    Attributes:
        error: what could not be written or read, or the fault that ended the run.
        resume_at: when the last of the blocked hosts may be asked again.
        drained: whether the run was told to stop.
        seen: the limits that its rows came under, by name, up to some thousands.
    """

    def __init__(self, client: AsyncClient, reader: Reader, sink: Sink, tally: Tally, plan: Plan) -> None:
        self.client, self.reader, self.sink, self.journal = client, reader, sink, sink.journal
        self.tally, self.plan = tally, plan
        self.backlog = Backlog()
        self.error: BaseException | None = None
        self.resume_at: datetime | None = None
        self.drained = False
        self.seen: dict[str, Policy] = {}
        self._stopping = False
        self._wake = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], Row | None] = {}
        self._feeder: asyncio.Task[None] | None = None
        reader.admit = self.admit

    async def run(self) -> None:
        """Work until everything is finished, left undone, or stopped; look at the attributes afterwards."""
        self._feeder = asyncio.create_task(self._feed())
        await asyncio.wait([self._feeder])
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.sink.finish()

    def drain(self) -> None:
        """Start nothing more and let what is on the wire come to its end."""
        self.drained = True
        self._stop()

    def abandoned(self) -> str:
        """Return what is said when the run is ended at once."""
        tally = self.tally
        same = "the same command goes on from here" if self.journal is not None else "without -o a run cannot go on"
        unknown = ", and rows that may have been carried out count as unknown then" if self.journal is not None else ""
        done = f"ok {tally.ok:,}  failed {tally.failed:,}"
        return f"stopped at once: {tally.in_flight:,} were in flight  {done}; {same}{unknown}"

    def fail(self, error: BaseException) -> None:
        """Stop because something cannot go on."""
        if self.error is None:
            self.error = error
        self._stop()
        if isinstance(error, StoreError):
            # What cannot be written need not be waited for.
            for task in self._tasks:
                task.cancel()

    def admit(self, record: Record) -> bool:
        """Tell the reader whether a record is still to be done."""
        line, journal = record.line, self.journal
        if journal is None:
            if not record.header:
                self.sink.expect(line)
            return True
        journal.see(line, record.data, header=record.header)
        if record.header or line in journal.done:
            return False
        self.sink.expect(line)
        return line not in journal.spilled

    def parked(self, row: Row) -> None:
        """Let another worker take over while a row waits for its next attempt."""
        lane = self.backlog.lanes[row.state.lane]
        if row.state.parked:
            lane.parked += 1
            self._hire(lane)
            if self._stopping:
                self._drop_soon()
        else:
            lane.parked -= 1

    # ---- reading -------------------------------------------------------------------------------

    async def _feed(self) -> None:
        try:
            while not self._stopping and not self.reader.ended:
                if self._full():
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                for item in await self.reader.take(_TAKE):
                    self._take(item)
                self.tally.skipped = self.reader.skipped
                await asyncio.sleep(0)
            if self.reader.ended:
                self.tally.lines = self.reader.lines
        except EXPECTED_ERRORS as error:
            self.fail(error)

    def _wake_feeder(self) -> None:
        if not self._wake.is_set() and not self._full():
            self._wake.set()

    def _full(self) -> bool:
        return self.backlog.full or (self.plan.ahead > 0 and self.sink.ahead >= self.plan.ahead)

    def _take(self, item: Row | Invalid) -> None:
        if self._was_sending(item.line) and not self.plan.resend_unknown:
            self.tally.unknown += 1
            self._finish(of_unknown(item))
        elif isinstance(item, Invalid):
            self._finish(of_invalid(item))
        else:
            lane = self._lane(item)
            if lane.blocked:
                self.tally.undone += 1
                return
            self.backlog.push(lane, item)
            self._hire(lane)

    def _was_sending(self, line: int) -> bool:
        return self.journal is not None and line in self.journal.sending

    def _lane(self, row: Row) -> Lane:
        name, policy = self.plan.rules.match(row.host, row)
        lane = self.backlog.lanes.get(name)
        if lane is None:
            self.backlog.sweep()
            if len(self.seen) < _MANY_LANES:
                self.seen[name] = policy
            # No more than can run: a row that waits here can still be overtaken and spends nothing of its deadline.
            lane = self.backlog.lanes[name] = Lane(name, policy.concurrency or UNLIMITED)
        row.state.lane = name
        return lane

    # ---- sending -------------------------------------------------------------------------------

    def _hire(self, lane: Lane) -> None:
        if lane.wants_worker and not self._stopping:
            lane.workers += 1
            task = asyncio.create_task(self._work(lane))
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._gone(done, lane))

    def _gone(self, task: asyncio.Task[None], lane: Lane) -> None:
        lane.workers -= 1
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)
        self._hire(lane)

    async def _work(self, lane: Lane) -> None:
        task = asyncio.current_task()
        assert task is not None
        while len(lane) and not self._stopping:
            if lane.workers - lane.parked > lane.width:
                return
            row = self.backlog.pop(lane)
            self._wake_feeder()
            self._tasks[task] = row
            try:
                await self._send(row, lane)
            finally:
                self._tasks[task] = None
                lane.parked -= row.state.parked
            # A result that others waited for makes room in an ordered output.
            self._wake_feeder()
            # One turn of the loop, in which the results of the others come in too: one write takes them all.
            await asyncio.sleep(0)
            if not self.sink.has_room:
                await self.sink.room()

    async def _send(self, row: Row, lane: Lane) -> None:
        CURRENT.set(row)
        try:
            response = await self.client.request(row.method, row.url, **self._options(row))
        except Limited as error:
            self._limited(row, lane, error)
        except (InvalidRequest, OptionsError) as error:
            self._failed(row, "invalid", f"line {row.line}: {error}")
        except RequestError as error:
            self._failed(row, type(error).__name__, str(error), error)
        except asyncio.CancelledError:
            self._leave(row)
            raise
        else:
            self._finish(of_response(row, response, _elapsed(row), keep_body=self.plan.keep_body))

    def _options(self, row: Row) -> RequestOptions:
        """Return what a row says beyond the defaults."""
        options: RequestOptions = {}
        if row.params is not None:
            options["params"] = row.params
        if row.headers is not None:
            options["headers"] = row.headers
        if row.content is not None:
            options["content"] = row.content
        if row.priority != 5:
            options["priority"] = row.priority
        if row.cost != 1:
            options["cost"] = row.cost
        if row.idempotent is not None:
            options["idempotent"] = row.idempotent
        if self.plan.key is not None:
            options.update(self.plan.key(row))
        return options

    def _failed(self, row: Row, kind: str, message: str, error: RequestError | None = None) -> None:
        # The row's last attempt alone tells whether it may have been carried out.
        self.tally.unknown += row.state.uncertain and row.state.intended
        self._finish(of_error(row, kind, message, _elapsed(row), error.attempts if error is not None else ()))

    def _finish(self, result: Result) -> None:
        tally = self.tally
        if result.ok:
            tally.ok += 1
        else:
            tally.failed += 1
            tally.failures.add(result)
        self.sink.put(result)

    def _limited(self, row: Row, lane: Lane, error: Limited) -> None:
        """Tell a host that is blocked, whose rows wait for another run, from a row that may not wait so long."""
        longest = self.plan.longest_wait
        if longest is None or (error.retry_after <= longest and not self._is_blocked(error)):
            self._failed(row, type(error).__name__, str(error), error)
            return
        lane.blocked_until = max(error.until, lane.blocked_until or error.until)
        lane.blocked_ns = max(lane.blocked_ns, time.monotonic_ns() + round(error.retry_after * 1e9))
        self.resume_at = max(error.until, self.resume_at or error.until)
        self._leave(row)
        self.tally.undone += self.backlog.drop(lane)
        self._wake.set()
        if self.plan.ahead:
            # Later results could not be written in order.
            self._stop()

    def _is_blocked(self, error: Limited) -> bool:
        """Whether the error tells of what is left of a block that another row met first."""
        ends = (lane.blocked_until for lane in self.backlog.lanes.values() if lane.blocked_until is not None)
        return any(abs((error.until - end).total_seconds()) < 1.0 for end in ends)

    def _leave(self, row: Row) -> None:
        """Leave a row undone; if it surely did nothing it may be sent again."""
        self.tally.undone += 1
        if self.journal is not None and row.state.intended and not row.state.uncertain:
            try:
                self.journal.unsend(row.line)
            except StoreError as error:
                self.fail(error)

    # ---- stopping ------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._drop_soon()
        if self._feeder is not None:
            self._feeder.cancel()
        for lane in self.backlog.lanes.values():
            self.tally.undone += self.backlog.drop(lane)

    def _drop_soon(self) -> None:
        # One turn of the loop later, a row whose last attempt has just ended is finished and no longer looks parked.
        asyncio.get_running_loop().call_soon(self._drop_waiting)

    def _drop_waiting(self) -> None:
        """Give up rows that nothing was sent of, or that wait for another attempt."""
        for task, row in self._tasks.items():
            if row is not None and (row.state.parked or not row.state.began):
                task.cancel()


def _elapsed(row: Row) -> float:
    began = row.state.began
    return (time.monotonic_ns() - began) / 1e9 if began else 0.0
