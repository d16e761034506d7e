"""Dry run: read everything, send nothing, and say how long the run will take, or why it would be refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from comity.bulk import sqlite
from comity.bulk.estimate import Estimate
from comity.bulk.job import Job, journal_of, unmatched
from comity.bulk.journal import Journal
from comity.bulk.output import Found, results_in
from comity.bulk.resume import FoundBefore, scan, verify
from comity.bulk.rows import Row
from comity.bulk.table import Record
from comity.policy.host_rules import HostRules


async def plan(job: Job) -> Estimate:
    """Return the plan of a job: of what an earlier run into the same output left to do, if there was one.

    Raises:
        OptionsError: an input or the output cannot be used, as the run itself would find.
    """
    with contextlib.ExitStack() as stack:
        reader = job.reader()
        stack.callback(reader.close)
        journal, before = journal_of(job, dry=True), FoundBefore()
        if journal is not None:
            stack.callback(journal.close)
            before = scan(_Looked(journal), journal, job.resend_rules)
            if reader.rereadable:
                await verify(job.reader, journal)
        estimate = Estimate(finished=before.finished, unknown=before.unknown)
        reader.admit = lambda record: _is_open(journal, record)
        rules = HostRules(job.policy, job.hosts)
        while not reader.ended:
            for item in await reader.take(4096):
                if journal is not None and item.line in journal.sending and not job.resend_unknown:
                    estimate.unknown += 1
                elif isinstance(item, Row):
                    estimate.add(item, *rules.match(item.host, item))
                else:
                    estimate.refuse(item)
        estimate.warnings = unmatched(job.hosts, estimate.hosts) if not before.finished else []
        return estimate


def _is_open(journal: Journal | None, record: Record) -> bool:
    if journal is None:
        return True
    journal.see(record.line, record.data, header=record.header)
    return record.line not in journal.done and record.line not in journal.spilled


class _Looked:
    """The output of an earlier run, which is only looked at."""

    def __init__(self, journal: Journal) -> None:
        self.path = journal.output

    def found(self) -> Iterator[Found]:
        """Yield its results."""
        if not self.path.exists():
            return iter(())
        if self.path.suffix.lower() in sqlite.SUFFIXES:
            return sqlite.results_in(self.path)
        return (found for found, _ in results_in(self.path))

    def keep(self, wanted: Callable[[Found], bool]) -> None:
        """Do nothing."""
