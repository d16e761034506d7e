"""Taking up a run: what is finished, what is to be sent again, and whether the input is still the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from comity.bulk.journal import Journal
from comity.bulk.output import Found, Results
from comity.bulk.reader import Admit, Reader
from comity.bulk.table import Record
from comity.errors import OptionsError
from comity.policy.retry import IDEMPOTENT_METHODS


@dataclass(frozen=True, slots=True)
class Again:
    """Which finished rows are sent again.

    Args:
        failed: those that are not ok, unless they may have been carried out and must not be repeated.
        unknown: those too.
        keyed: whether each request carries a key of its own, which makes repeating it harmless.
    """

    failed: bool = False
    unknown: bool = False
    keyed: bool = False

    def wants(self, found: Found) -> bool:
        """Return whether a result is to be replaced."""
        if found.ok:
            return False
        return self.unknown if self.is_unknown(found) else self.failed

    def is_unknown(self, found: Found) -> bool:
        """Return whether sending this row again could do something twice."""
        return found.unknown and not self.keyed and found.method not in IDEMPOTENT_METHODS


@dataclass(slots=True)
class Before:
    """What earlier runs left.

    Attributes:
        finished, failed, unknown: rows with a result; those of them that are not ok; those of unknown outcome.
    """

    finished: int = 0
    failed: int = 0
    unknown: int = 0


def scan(output: Results, journal: Journal, again: Again) -> Before:
    """Fill the journal's bitmap from the output, and drop the results that are to be replaced.

    Raises:
        OptionsError: the output holds what is no result, or two results of a line, or lacks one of a request that must
            not be sent twice.
        StoreError: the output cannot be written anew.
    """
    before, dropped = Before(), False
    for found in output.found():
        if again.wants(found):
            dropped = True
            # Its outcome is settled: it stands in the output until the file without it takes its place.
            if found.line in journal.sending or found.line in journal.settled:
                journal.unsend(found.line)
            continue
        if found.line in journal.done:
            hint = f"line {found.line} stands in it twice"
            raise OptionsError("-o", str(journal.output), "an output that nothing else has written to", hint)
        journal.done.add(found.line)
        if found.reached and found.method not in IDEMPOTENT_METHODS:
            journal.unsafe.add(found.line)
        before.failed += not found.ok
        before.unknown += not found.ok and again.is_unknown(found)
    before.finished = len(journal.done)
    _check_settled(journal, again)
    if dropped:
        output.keep(lambda found: not again.wants(found))
    return before


def _check_settled(journal: Journal, again: Again) -> None:
    """Refuse an output from which a result was taken whose request must not be sent twice."""
    missing = [line for line in journal.settled if line not in journal.done]
    if again.unknown:
        for line in missing:
            journal.unsend(line)
    elif missing:
        more = f" and of {len(missing) - 1:,} more" if len(missing) > 1 else ""
        reason = (
            f"the result of line {missing[0]}{more} is not in it any more, and sending such a request again could "
            "carry it out twice"
        )
        hint = "put the output back, or let --resend-unknown send them again; to begin again, remove it and its .comity file"
        raise OptionsError("-o", str(journal.output), hint=hint, reason=reason)


async def verify(open_reader: Callable[[Admit], Reader], journal: Journal) -> None:
    """Compare the input with what is known of its finished lines, before anything is sent.

    Args:
        open_reader: opens the inputs once more.
        journal: what is known.

    Raises:
        OptionsError: a finished line has changed or is gone.
    """
    last = max(journal.done.highest, journal.sending.highest, *journal.spilled, 0)
    if not last:
        return

    def compare(record: Record) -> bool:
        journal.see(record.line, record.data, header=record.header)
        return False

    reader = open_reader(compare)
    try:
        while not reader.ended and reader.lines < last:
            await reader.take(4096)
    finally:
        reader.close()
    if reader.lines < last:
        hint = f"it has {reader.lines} lines, and line {last} is finished"
        raise OptionsError("-o", str(journal.output), f"it belongs to another input: {hint}")
