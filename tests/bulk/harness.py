"""What tests of a run share: jobs in this process."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from comity.bulk import job as bulk_job
from comity.bulk.job import Job
from comity.bulk.report import Report
from comity.policy.backoff import Backoff
from comity.policy.options import Policy
from comity.policy.retry import Retry
from comity.testing.upstream import Upstream

QUICK = Retry(attempts=3, backoff=Backoff(base=0.01, jitter=None))


def write(path: Path, *rows: dict[str, Any] | str) -> Path:
    """Write input lines: objects as JSON, text as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def results(path: Path) -> list[dict[str, Any]]:
    """Return the results in an output, in its order."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def by_line(path: Path) -> dict[int, dict[str, Any]]:
    """Return the results by line; fails when a line has two."""
    found = results(path)
    assert max(Counter(row["line"] for row in found).values(), default=0) <= 1
    return {row["line"]: row for row in found}


async def run(source: Path | str, output: Path | str | None, policy: Policy | None = None, **options: Any) -> Report:
    """Run a job in this process."""
    options.setdefault("progress", "off")
    job = Job(
        inputs=(str(source),),
        output=None if output is None else str(output),
        policy=policy or Policy(retry=QUICK),
        **options,
    )
    return await bulk_job.run(job)


def sends(upstream: Upstream, prefix: str = "") -> Counter[str]:
    """Return how often each target arrived."""
    return Counter(arrival.target for arrival in upstream.arrivals(prefix))
