"""Taking up a run: what is finished, what is to be sent again, and whether the input is still the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from comity.bulk.bitmap import Bitmap
from comity.bulk.journal import Journal
from comity.bulk.output import Found, Output, Results
from comity.bulk.reader import Admit, Reader
from comity.bulk.table import Record
from comity.errors import OptionsError
from comity.policy.retry import IDEMPOTENT_METHODS

_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class ResendRules:
    """Which finished rows are sent again.

    Args:
        failed: those that are not ok, unless they may have been carried out and must not be repeated.
        unknown: those too.
        keyed: whether each request carries a key of its own, which makes repeating it harmless.
    """

    failed: bool = False
    unknown: bool = False
    keyed: bool = False

    def wants(self, found: Found, *, noted: bool = False) -> bool:
        """Return whether a result is to be replaced.

        Args:
            found: the result.
            noted: whether the journal knows its request as one that must not be sent twice.
        """
        if found.ok:
            return False
        return self.unknown if self.is_unknown(found, noted=noted) else self.failed

    def is_unknown(self, found: Found, *, noted: bool = False) -> bool:
        """Return whether sending this row again could do something twice."""
        return found.unknown and not self.keyed and (noted or found.method not in IDEMPOTENT_METHODS)


@dataclass(slots=True)
class FoundBefore:
    """What earlier runs left.

    Attributes:
        finished, failed, unknown: rows with a result; those of them that are not ok; those of unknown outcome.
    """

    finished: int = 0
    failed: int = 0
    unknown: int = 0


def scan(output: Results, journal: Journal, rules: ResendRules) -> FoundBefore:
    """Fill the journal's bitmap from the output, and drop the results that are to be replaced.

    Raises:
        OptionsError: the output holds what is no result, or two results of a line, or lacks one of a request that must
            not be sent twice.
        StoreError: the output cannot be written anew.
    """
    before, dropped = FoundBefore(), Bitmap()
    for found in output.found():
        if _is_dropped(found, journal, rules, before):
            dropped.add(found.line)
        elif found.line in journal.done:
            hint = f"line {found.line} stands in it twice"
            raise OptionsError("-o", str(journal.output), "an output that nothing else has written to", hint)
        else:
            journal.done.add(found.line)
    before.finished = len(journal.done)
    for line in list(journal.spilled):
        if line in journal.done:
            journal.spilled.discard(line)
        elif not _is_dropped(journal.spilled.found(line), journal, rules, before):
            before.finished += 1
    _check_settled(journal, rules)
    if len(dropped):
        output.keep(lambda found: found.line not in dropped)
    return before


def _is_dropped(found: Found, journal: Journal, rules: ResendRules, before: FoundBefore) -> bool:
    """Drop a result that is to be replaced, or count it."""
    noted = found.line in journal.sending or found.line in journal.settled
    if rules.wants(found, noted=noted):
        # Its outcome is settled: it stands in the output until the file without it takes its place.
        if noted or found.line in journal.spilled:
            journal.unsend(found.line)
        return True
    if found.reached and found.method not in IDEMPOTENT_METHODS:
        journal.unsafe.add(found.line)
    before.failed += not found.ok
    before.unknown += not found.ok and rules.is_unknown(found, noted=noted)
    return False


def _check_settled(journal: Journal, rules: ResendRules) -> None:
    """Refuse an output from which a result was taken whose request must not be sent twice."""
    missing = [line for line in journal.settled if line not in journal.done and line not in journal.spilled]
    if rules.unknown:
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


def deliver(output: Output, journal: Journal) -> None:
    """Write the results that wait for their turn in a run that keeps no order.

    Raises:
        StoreError: the output cannot be written.
    """
    lines = sorted(journal.spilled)
    for begin in range(0, len(lines), _AT_ONCE):
        some = lines[begin : begin + _AT_ONCE]
        output.write([journal.unspill(line) for line in some])
        for line in some:
            journal.done.add(line)


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
