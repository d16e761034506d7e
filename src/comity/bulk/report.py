"""Report: what came of a run, in words and as an exit code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from comity.bulk.clock_text import clock_text
from comity.bulk.resume import FoundBefore
from comity.bulk.runner import Runner
from comity.bulk.signals import STOPPED
from comity.bulk.tally import Tally
from comity.errors import OptionsError, StoreError

OK, FAILED, USAGE, HALTED, EXHAUSTED = 0, 1, 2, 3, 75


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The end of a run.

    Args:
        tally: the counts.
        before: what earlier runs left.
        seconds: how long it took.
        error: what ended it early.
        resume_at: when blocked hosts may be asked again.
        stopped: whether it was told to stop.
        resumable: whether the same command goes on where it stopped.
        found: what the hosts taught.
        warnings: what else is to be told.
    """

    tally: Tally
    before: FoundBefore
    seconds: float
    error: BaseException | None = None
    resume_at: datetime | None = None
    stopped: bool = False
    resumable: bool = True
    found: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        runner: Runner,
        before: FoundBefore,
        began: int,
        *,
        resumable: bool,
        found: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> Report:
        """Return the report of a finished runner that began at `began`, monotonic ns."""
        return cls(
            tally=runner.tally,
            before=before,
            seconds=(time.monotonic_ns() - began) / 1e9,
            error=runner.error,
            resume_at=runner.resume_at,
            stopped=runner.drained,
            resumable=resumable,
            found=found,
            warnings=warnings,
        )

    @property
    def exit_code(self) -> int:
        """0 all ok, 1 some failed or the output cannot be written, 2 usage, 3 halted, 75 quota used up, 130 stopped."""
        if isinstance(self.error, StoreError):
            return FAILED
        if isinstance(self.error, OptionsError) and not self.tally.sent:
            return USAGE
        if self.error is not None:
            return HALTED
        if self.stopped:
            return STOPPED
        if self.resume_at is not None:
            return EXHAUSTED
        return FAILED if self.tally.failed or self.before.failed else OK

    def lines(self) -> list[str]:
        """Return the summary."""
        tally = self.tally
        rate = tally.sent / self.seconds if self.seconds else 0.0
        unsent = f" (and {tally.unsent:,} attempts that never left)" if tally.unsent else ""
        summary = (
            f"sent {tally.sent:,}{unsent}  retried {tally.retried:,}  429s {tally.refused:,}  ok {tally.ok:,}  "
            f"failed {tally.failed:,}  in {clock_text(self.seconds)}  {rate:.1f}/s"
        )
        lines = [summary]
        if self.before.finished and not (
            tally.finished or tally.undone or self.error or self.resume_at or self.stopped
        ):
            lines = [f"nothing to do: all {self.before.finished:,} rows are finished"]
        lines += self.found
        if tally.failed:
            lines.append(f"failed {tally.failed:,}: {tally.failures.text()}")
        if self.before.finished:
            failed = f", {self.before.failed:,} of them not ok" if self.before.failed else ""
            lines.append(f"finished earlier {self.before.finished:,}{failed}")
        if unknown := self.before.unknown + tally.unknown:
            what = "they may have been carried out and are left alone; --resend-unknown sends them again"
            lines.append(f"of unknown outcome {unknown:,}: {what}")
        lines += self.warnings
        if self.error is not None:
            lines.append(f"{'cannot write' if isinstance(self.error, StoreError) else 'halted'}: {_text(self.error)}")
        if self.resume_at is not None:
            lines.append(f"quota used up: resume after {_when(self.resume_at)}")
        if tally.undone or self.error is not None or self.stopped:
            left = tally.undone if tally.left is None else tally.left
            what = f"{left:,} rows left; " if left else ""
            same = "the same command goes on from here" if self.resumable else "without -o a run cannot go on"
            lines.append(what + same)
        return lines


def _when(moment: datetime) -> str:
    seconds = max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC (in {clock_text(seconds)})"


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
