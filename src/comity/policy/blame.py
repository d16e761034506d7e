"""Blame: whose a refusal is that names no time: the whole host's, or that of one part of it.

Theory. A part is what a caller takes for one: a path, a queue. A host that refuses by a limit of its own refuses whatever
comes, so the answer to another part tells them apart. A refusal is the part's own when a request of another part was
answered that started later than the refused one, or, in a row of refusals, than the one before. Then the part alone is
held, and probed by one request at a time; nobody else waits. Before that is known the host is held too, but for TRIAL at
most, so that others can show it. A second part that is refused, with no success in between, makes it the host's: full law.
"""

from __future__ import annotations

import msgspec

from comity.policy.units import NS

TRIAL = NS
"""So long, ns, a host is held at most for a refusal that may be one part's alone."""

_MOST = 1_000


class _Row(msgspec.Struct, gc=False):
    """Refusals of a part in a row.

    Args:
        started: when the last of them that began an episode started, ns.
        until: when its hold ends, ns.
        hold: how long that is, ns; a probe holds the others back as long again.
        own: it is the part's.
        free: when the next may go, ns.
    """

    started: int
    until: int
    hold: int
    own: bool
    free: int


class Blame:
    """What the parts of one host were answered.

    Attributes:
        proved: the last refusal was the first that made a trial a refusal of the host.
    """

    __slots__ = ("_accused", "_best", "_last", "_other", "_rows", "_several", "proved")

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._best = self._other = ("", -1)  # the latest start that succeeded, and the latest of another part
        self._accused: str | None = None  # the first part that was refused since the last success
        self._several = self.proved = False  # others were since, too
        self._last = -1  # when the last one started that was refused

    def until(self, part: str | None) -> int:
        """Return until when a part is held, ns."""
        row = self._rows.get(part) if part is not None else None
        return 0 if row is None else row.free

    def granted(self, part: str | None, now: int) -> None:
        """Note a start: one of a part that was refused is a probe, and those behind it wait for its answer."""
        row = self._rows.get(part) if part is not None else None
        if row is not None:
            row.free = now + row.hold

    def succeeded(self, part: str, started: int) -> bool:
        """Note an answer that is no refusal; return whether the part was held and is free now."""
        if part == self._best[0]:
            self._best = part, max(started, self._best[1])
        elif started > self._best[1]:
            self._best, self._other = (part, started), self._best
        elif started > self._other[1]:
            self._other = part, started
        if started > self._last:
            self._accused, self._several = None, False
        row = self._rows.get(part)
        if row is None or started < row.started:
            return False
        del self._rows[part]
        return True

    def refused(self, part: str, started: int, now: int, until: int) -> int | None:
        """Note a refusal that names no time, and return until when the host is to be held; None: it is the part's own.

        Args:
            part: which.
            started: when the refused request started, ns.
            now: ns.
            until: as long as the request itself waits, ns.
        """
        self.proved, row = False, self._rows.get(part)
        if row is None or started >= row.until:
            since = started if row is None else row.started
            own = (self._other if part == self._best[0] else self._best)[1] > since
            self._rows.pop(part, None)
            if len(self._rows) >= _MOST:
                del self._rows[next(iter(self._rows))]
            row = self._rows[part] = _Row(started, until, until - now, own, until)
        if row.own:
            return None
        self._last = max(started, self._last)
        if not self._several and self._accused in {None, part}:
            self._accused = part
            return min(until, now + TRIAL)
        self.proved, self._several = not self._several, True
        return until

    def pardoned(self) -> list[str]:
        """Forget all refusals; return the parts that had some."""
        parts = list(self._rows)
        self._rows.clear()
        return parts

    def idle(self, now: int) -> bool:
        """Whether no part is held."""
        return all(row.free <= now for row in self._rows.values())
