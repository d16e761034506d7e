"""Job: a whole run, from its options to its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from comity import redact
from comity.bulk.body import BodyTemplate
from comity.bulk.counting import count
from comity.bulk.journal import Journal
from comity.bulk.key import IdempotencyKey
from comity.bulk.outlook import Outlook
from comity.bulk.output import JsonLines, Output
from comity.bulk.progress import Kind, Progress
from comity.bulk.reader import Admit, Reader, everything
from comity.bulk.report import Report
from comity.bulk.resume import FoundBefore, ResendRules, deliver, scan, verify
from comity.bulk.rows import RowParser
from comity.bulk.runner import EXPECTED_ERRORS, UNLIMITED, Plan, Runner
from comity.bulk.signals import stopping
from comity.bulk.sink import Sink
from comity.bulk.source import STDIN
from comity.bulk.sqlite import SUFFIXES, SqliteTable
from comity.bulk.stream import Stream
from comity.bulk.tally import Tally
from comity.bulk.template import UrlTemplate
from comity.bulk.watched import Watched
from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.async_client import AsyncClient
from comity.client.har import check_target
from comity.client.transport import Transport
from comity.errors import OptionsError, StoreError
from comity.policy.host_rules import HostRules
from comity.policy.options import Policy

MAX_BODY = 16 * 1024 * 1024
_STDOUT = 1
_REMEMBER_EVERY = 10.0
_AHEAD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run and how.

    Args:
        inputs: paths; "-" is standard input.
        output: where results go; None is standard output, from where no run can go on.
        template: fills the URL of rows that have none.
        body: fills the body of rows that have none.
        id_column: the column or field that is the id of a row, instead of `id`.
        delimiter: what separates the columns of a table, when it is not what the input's name says.
        method: method of rows that name none.
        headers: headers of every row.
        cost: of rows that name none.
        policy: the limits of every host that `hosts` does not name.
        hosts: limits by key, as of `HostRules`.
        ordered: whether results stand in the order of the input.
        key_name: header that carries an idempotency key; None for none.
        retry_failed: whether rows that failed in an earlier run are sent again.
        resend_unknown: whether rows of unknown outcome are sent again.
        keep_body: whether bodies go into results.
        max_body: most bytes of a body; a larger one is an error.
        progress: how progress is shown.
        har: a HAR file of every attempt; when it cannot be written on, the run goes on and says so at its end.
        memory: where what hosts taught is kept for the next run.
        transport: what sends; by default an `AiohttpTransport` with `max_body`. It is closed at the end.
    """

    inputs: Sequence[str]
    output: str | None = None
    template: UrlTemplate | None = None
    body: BodyTemplate | None = None
    id_column: str | None = None
    delimiter: str | None = None
    method: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cost: int | dict[str, int] = 1
    policy: Policy = field(default_factory=Policy)
    hosts: Mapping[str, Policy] = field(default_factory=dict)
    ordered: bool = False
    key_name: str | None = None
    retry_failed: bool = False
    resend_unknown: bool = False
    keep_body: bool = True
    max_body: int | None = MAX_BODY
    progress: Kind = "auto"
    har: str | None = None
    memory: str | None = None
    transport: Transport | None = None

    def parser(self) -> RowParser:
        """Return what turns lines into rows."""
        return RowParser(
            method=self.method,
            headers=self.headers,
            template=self.template,
            body=self.body,
            id_column=self.id_column,
            cost=self.cost,
        )

    @property
    def resend_rules(self) -> ResendRules:
        """Which finished rows are sent again."""
        return ResendRules(self.retry_failed, self.resend_unknown, self.key_name is not None)

    def begun(self) -> dict[str, str]:
        """Return the options that must be the same when the run goes on: they turn lines into requests."""
        given: dict[str, str | None] = {
            "--url": self.template.text if self.template is not None else None,
            "--method": self.method,
            "--id": self.id_column,
            "--delimiter": self.delimiter,
            "--idempotency-key": self.key_name,
        }
        if self.body is not None:
            given[self.body.option] = self.body.text
        return {option: _open_value(value) for option, value in given.items() if value is not None}

    def reader(self, admit: Admit = everything) -> Reader:
        """Return a reader of all inputs; `admit` decides which records are parsed.

        Raises:
            OptionsError: one cannot be opened.
        """
        return Reader(self.inputs, self.parser(), admit=admit, delimiter=self.delimiter)


async def run(job: Job) -> Report:
    """Run a job to its end.

    Returns:
        What came of it; its `exit_code` is the command's.

    Raises:
        OptionsError: an input, the output or the journal cannot be used; nothing was sent.
        StoreError: the output or journal cannot be written.
    """
    began = time.monotonic_ns()
    _check_har(job)
    with contextlib.ExitStack() as stack:
        reader = job.reader()
        stack.callback(reader.close)
        journal = journal_of(job)
        if journal is not None:
            stack.callback(journal.close)
        output = _output(job, journal)
        stack.callback(output.close)
        before = FoundBefore()
        if journal is not None:
            before = scan(output, journal, job.resend_rules)
            if reader.rereadable:
                await verify(job.reader, journal)
            if not job.ordered:
                deliver(output, journal)
        warnings: list[str] = []
        found: list[str] = []
        tally = Tally(before=before.finished)
        runner = await _send(job, reader, output, journal, tally, found=found, warnings=warnings)
        if runner.error is not None and not isinstance(runner.error, EXPECTED_ERRORS):
            raise runner.error
        if runner.error is None:
            if job.ordered:
                output.sort()
            if journal is not None:
                # The journal forgets what the output knows, so that is to be safe first.
                output.sync()
                journal.tidy()
        if reader.ended and not before.finished:
            warnings += unmatched(job.hosts, runner.seen)
        if reader.ended and not runner.tally.total:
            warnings = [f"{', '.join(job.inputs)} {'holds' if len(job.inputs) == 1 else 'hold'} no rows"]
        return Report.of(runner, before, began, resumable=journal is not None, found=found, warnings=warnings)


async def _send(
    job: Job,
    reader: Reader,
    output: Output,
    journal: Journal | None,
    tally: Tally,
    *,
    found: list[str],
    warnings: list[str],
) -> Runner:
    watched = Watched(job.transport or AiohttpTransport(max_body=job.max_body), tally, journal)
    client = AsyncClient(policy=job.policy, hosts=job.hosts, raise_for="never", transport=watched, memory=job.memory)
    sink = Sink(output, journal, ordered=job.ordered)
    runner = Runner(client, reader, sink, tally, _plan(job, journal))
    watched.parked, watched.settle, sink.failed = runner.parked, sink.settle, runner.fail
    outlook = Outlook(runner.seen, client.stats)
    beside = [asyncio.create_task(count(reader, tally)), asyncio.create_task(_remembering(client, warnings))]
    try:
        # A run that goes on leaves what it recorded before.
        with _recording(client, job.har, warnings, append=tally.before > 0), stopping(runner):
            shown = Progress(
                tally,
                limit=_limit_in_words(job),
                least=outlook.least,
                why=outlook.why,
                learned=outlook.learned,
                kind=job.progress,
            )
            async with shown.shown():
                await runner.run()
    finally:
        for task in beside:
            task.cancel()
        try:
            await client.aclose()
        except StoreError as error:
            warnings.append(f"--memory: {error}")
        found += outlook.found()
    return runner


async def _remembering(client: AsyncClient, warnings: list[str]) -> None:
    """Write down now and then what the hosts taught, so that a kill loses little of it."""
    try:
        while True:
            await asyncio.sleep(_REMEMBER_EVERY)
            client.remember()
    except StoreError as error:
        warnings.append(f"--memory: {error}")


@contextlib.contextmanager
def _recording(client: AsyncClient, path: str | None, warnings: list[str], *, append: bool) -> Iterator[None]:
    """Record every attempt, if there is a path; what cannot be recorded is a warning and costs no result."""
    if path is None:
        yield
        return
    try:
        with client.har(path, append=append):
            yield
    except StoreError as error:
        warnings.append(f"--har: {error}")


def _check_har(job: Job) -> None:
    """Check, before anything is touched, that the HAR file is none of the run's other files, and may be replaced."""
    if job.har is None:
        return
    others = [*job.inputs, *([job.output] if job.output is not None else [])]
    if os.path.realpath(job.har) in {os.path.realpath(path) for path in others if path != STDIN}:
        raise OptionsError("--har", job.har, "a file of its own", reason="it is an input or the output")
    check_target(job.har, "--har")


def _plan(job: Job, journal: Journal | None) -> Plan:
    key = None
    if job.key_name is not None:
        key = IdempotencyKey(job.key_name, journal.nonce if journal is not None else secrets.token_hex(16)).options
    return Plan(
        rules=HostRules(job.policy, job.hosts),
        keep_body=job.keep_body,
        longest_wait=job.policy.retry.max_retry_after,
        key=key,
        ahead=_AHEAD * (job.policy.concurrency or UNLIMITED) if job.ordered else 0,
        resend_unknown=job.resend_unknown,
    )


def _open_value(value: str) -> str:
    """Return a value without its secrets, yet one that tells it from any other."""
    masked = redact.text(value)
    if masked == value:
        return value
    return f"{masked} ({hashlib.blake2b(value.encode('utf-8', 'replace'), digest_size=6).hexdigest()})"


def unmatched(patterns: Iterable[str], seen: Collection[str]) -> list[str]:
    """Return a warning for each pattern of `--host` that no row had to do with.

    Args:
        patterns: the patterns.
        seen: the names of the limits that rows came under; a pattern names its own, or begins with it for the values of
            a group.
    """
    others = ", ".join(sorted(seen)[:5]) + (", ..." if len(seen) > 5 else "")
    return [
        f"--host {name!r} matched no request; the hosts are {others or 'none'}"
        for name in patterns
        if not any(each == name or each.startswith(f"{name} [") for each in seen)
    ]


def _limit_in_words(job: Job) -> str:
    """Return the rates that hold, for people; "" when hosts have limits of their own or there is none."""
    return "" if job.hosts else " and ".join(map(str, job.policy.rate))


def journal_of(job: Job, *, dry: bool = False) -> Journal | None:
    """Return the journal of an output that is, or will be, a file; a pipe or device has none.

    Raises:
        OptionsError: the output or its journal cannot be used.
        StoreError: the journal cannot be written.
    """
    if job.output is None or job.output == STDIN:
        return None
    path = Path(job.output)
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise OptionsError("-o", job.output, "a file", reason="it is a directory")
        if not stat.S_ISREG(mode):
            return None
    return Journal(path.resolve(), job.begun(), dry=dry)


def _output(job: Job, journal: Journal | None) -> Output:
    if journal is not None:
        if journal.output.suffix.lower() in SUFFIXES:
            return SqliteTable(journal.output)
        return JsonLines(journal.output, journal.scratch("results"))
    if job.output is None or job.output == STDIN:
        return Stream(_STDOUT, "standard output")
    try:
        return Stream(os.open(job.output, os.O_WRONLY), job.output, owned=True)
    except OSError as error:
        raise OptionsError("-o", job.output, "a path that can be written", str(error.strerror)) from None
