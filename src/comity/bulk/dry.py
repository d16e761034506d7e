"""Dry run: read everything, send nothing, and say how long the run will take."""

from __future__ import annotations

from pathlib import Path

from comity.bulk import sqlite
from comity.bulk.bitmap import Bitmap
from comity.bulk.estimate import Estimate
from comity.bulk.job import Job
from comity.bulk.output import results_in
from comity.bulk.resume import Again
from comity.bulk.rows import Row
from comity.bulk.table import Record
from comity.policy.host_rules import HostRules


async def plan(job: Job) -> Estimate:
    """Return the plan of a job: of what an earlier run into the same output left to do, if there was one.

    Raises:
        OptionsError: an input cannot be used, or the output is none of ours.
    """
    done = _done(job)

    def is_open(record: Record) -> bool:
        finished = record.line in done
        estimate.finished += finished
        return not finished

    estimate, rules = Estimate(), HostRules(job.policy, job.hosts)
    reader = job.reader(is_open)
    try:
        while not reader.ended:
            for item in await reader.take(4096):
                if isinstance(item, Row):
                    estimate.add(item, *rules.match(item.host))
                else:
                    estimate.invalid += 1
    finally:
        reader.close()
    return estimate


def _done(job: Job) -> Bitmap:
    done = Bitmap()
    path = Path(job.output) if job.output is not None else None
    if path is None or not path.is_file():
        return done
    again = Again(job.retry_failed, job.resend_unknown, job.key_name is not None)
    results = (
        sqlite.results_in(path) if path.suffix.lower() in sqlite.SUFFIXES else (each for each, _ in results_in(path))
    )
    for found in results:
        if not again.wants(found):
            done.add(found.line)
    return done
