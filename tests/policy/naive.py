"""The limiter's rules written down a second time: plain lists, every window counted anew, no care for speed.

Nothing is shared with `comity.policy`: a fault there cannot hide here. All times are ns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FOREVER = 1 << 62
NO_CAP = 1 << 62


@dataclass(eq=False)
class Entry:
    """What one attempt takes of one limit: open until it is dated."""

    cost: int
    at: int | None = None


@dataclass(eq=False, kw_only=True)
class Limit:
    """One limit: `most` per `per`, of some kind."""

    kind: str  # "sliding", "fixed", "bucket" or "spacing"
    most: int
    per: int
    unit: str = "requests"
    server: bool = False
    bucket: int = 0
    anchor: int = 0
    slack: int = 0
    """How much longer than `per` an entry may count: a count in buckets is not exact."""
    entries: list[Entry] = field(default_factory=list)

    def open(self) -> int:
        return sum(entry.cost for entry in self.entries if entry.at is None)

    def allows(self, at: int, cost: int, slack: int = 0) -> bool:
        """Whether `cost` may start at `at` if nothing else happens before."""
        dated = [entry for entry in self.entries if entry.at is not None]
        if self.kind == "sliding":
            inside = [entry.cost for entry in dated if at < entry.at + self.per + slack]
            return sum(inside) + self.open() + cost <= self.most
        if self.kind == "fixed":
            window = (at - self.anchor) // self.per
            inside = [entry.cost for entry in dated if (entry.at - self.anchor) // self.per == window]
            return sum(inside) + self.open() + cost <= self.most
        if self.kind == "spacing":
            unstarted = any(entry.at is None for entry in self.entries)
            return not unstarted and (not dated or (at - dated[-1].at) * self.most >= dated[-1].cost * self.per)
        return self.level(at, dated) >= (self.open() + cost) * self.per

    def level(self, at: int, dated: list[Entry]) -> int:
        """What is in the bucket at `at`, in units of 1/per."""
        full = self.bucket * self.per
        level, then = full, 0
        for entry in dated:
            level = min(full, level + (entry.at - then) * self.most) - entry.cost * self.per
            then = entry.at
        return min(full, level + (at - then) * self.most)

    def moments(self, now: int, cost: int, slack: int = 0) -> list[int]:
        """Every time at which the answer of `allows` may change."""
        dated = [entry for entry in self.entries if entry.at is not None]
        if self.kind == "sliding":
            return [entry.at + self.per + slack for entry in dated]
        if self.kind == "fixed":
            return [self.anchor + ((now - self.anchor) // self.per + 1) * self.per]
        if self.kind == "spacing":
            return [dated[-1].at + -(-dated[-1].cost * self.per // self.most)] if dated else []
        missing = (self.open() + cost) * self.per - self.level(now, dated)
        return [now + -(-missing // self.most)]

    def date(self, entry: Entry, at: int) -> None:
        """The entry's time is known: keep the list in the order of times."""
        entry.at = at
        self.entries.remove(entry)
        self.entries.append(entry)


@dataclass(eq=False, kw_only=True)
class Request:
    """One request in the model."""

    number: int
    priority: int
    costs: list[int]
    since: int
    deadline: int = FOREVER
    not_before: int = 0
    state: str = "new"  # new, waiting, granted, started, answered, resting (keeps its slot), over
    turn: int = 0
    entries: list[Entry | None] = field(default_factory=list)
    started_at: int = -1
    holds: bool = False


class Naive:
    """The whole gate."""

    def __init__(self, limits, *, concurrency, ageing, gap, learns):
        self.limits: list[Limit] = limits
        self.concurrency = NO_CAP if concurrency is None else concurrency
        self.ageing = ageing
        self.gap, self.learns, self.learned, self.calm = gap, learns, 0, 0
        self.requests: list[Request] = []
        self.starts: list[int] = []
        self.until = self.blocked = 0
        self.ramp = NO_CAP
        self.turns = 0

    def having(self, *states: str) -> list[Request]:
        return [request for request in self.requests if request.state in states]

    # ---- what the rules forbid -----------------------------------------------------------------

    @property
    def cap(self) -> int:
        return min(self.concurrency, self.ramp)

    def slot_free(self, request: Request) -> bool:
        flying = len(self.having("granted", "started", "answered"))
        keeping = sum(other.holds for other in self.having("waiting", "resting"))
        return (flying if request.holds else flying + keeping) < self.cap

    def allowed(self, request: Request, at: int, slack: int = 0) -> bool:
        """Whether time is all that `request` had to wait for, and `at` is late enough."""
        if at < self.until:
            return False
        width = self.gap + self.learned
        if width and (self.having("granted") or (self.starts and at < self.starts[-1] + width)):
            return False
        return all(
            not cost or limit.allows(at, cost, slack * limit.slack)
            for limit, cost in zip(self.limits, request.costs, strict=True)
        )

    def earliest(self, request: Request, now: int, slack: int = 0) -> int:
        moments = {now, self.until, *(start + self.gap + self.learned for start in self.starts[-1:])}
        for limit, cost in zip(self.limits, request.costs, strict=True):
            if cost:
                moments.update(limit.moments(now, cost, slack * limit.slack))
        for moment in sorted(moments):
            if moment >= now and self.allowed(request, moment, slack):
                return moment
        return FOREVER

    # ---- the queue -----------------------------------------------------------------------------

    def enqueue(self, request: Request, now: int) -> None:
        self.turns += 1
        request.turn = self.turns
        request.state = "waiting"
        self.ripen(now)
        if self.blocked > now or (self.until > now and request.deadline <= self.until):
            request.state = "resting" if request.holds else "over"

    def ripen(self, now: int) -> None:
        for request in self.having("waiting"):
            if request.not_before <= now:
                request.not_before = 0

    def aside(self) -> list[Request]:
        return [request for request in self.having("waiting") if request.not_before]

    def head(self) -> Request | None:
        order = sorted(
            [request for request in self.having("waiting") if not request.not_before],
            key=lambda each: (not each.holds, each.since + each.priority * self.ageing, each.turn),
        )
        return order[0] if order else None

    def expire(self, now: int) -> list[Request]:
        late = [request for request in self.having("waiting") if request.deadline <= now]
        for request in late:
            request.state = "resting" if request.holds else "over"
        return late

    def grant(self, request: Request) -> None:
        request.state, request.started_at, request.entries = "granted", -1, []
        for limit, cost in zip(self.limits, request.costs, strict=True):
            request.entries.append(Entry(cost) if cost else None)
            if cost:
                limit.entries.append(request.entries[-1])

    # ---- the way of a request ------------------------------------------------------------------

    def start(self, request: Request, now: int) -> None:
        request.state, request.started_at = "started", now
        self.starts.append(now)
        self._date(request, now, server=False)

    def answer(self, request: Request, now: int) -> None:
        request.state = "answered"
        self._date(request, now, server=True)

    def end(self, request: Request, now: int, *, keep: bool = False) -> None:
        if request.state == "granted":
            for limit, entry in zip(self.limits, request.entries, strict=True):
                if entry:
                    limit.entries.remove(entry)
        elif request.state == "started":
            self._date(request, now, server=True)
        request.state = "resting" if keep else "over"
        request.holds = keep

    def settle(self, request: Request, place: int, real: int, now: int) -> None:
        limit, entry = self.limits[place], request.entries[place]
        if entry is None and real:
            entry = request.entries[place] = Entry(real)
            limit.entries.append(entry)
            if not (limit.server and request.state == "started"):
                limit.date(entry, now)
        elif entry is not None:
            entry.cost = real
            if not real and entry.at is None:
                limit.entries.remove(entry)
                request.entries[place] = None

    def _date(self, request: Request, now: int, *, server: bool) -> None:
        for limit, entry in zip(self.limits, request.entries, strict=True):
            if entry and limit.server is server:
                limit.date(entry, now)

    # ---- what answers teach --------------------------------------------------------------------

    def succeeded(self, request: Request) -> None:
        if request.started_at < self.until:
            return
        if self.ramp < NO_CAP:
            self.ramp = self.ramp + 1 if self.ramp + 1 < self.concurrency else NO_CAP
        if self.learned:
            self.calm += 1
            if self.calm == 20:
                self.calm = 0
                self.learned //= 2
                if self.learned < 250_000_000:
                    self.learned = 0

    def failed(self) -> None:
        self.calm = 0

    def refused(
        self, request: Request, now: int, until: int, *, rate: bool, hinted: bool, block: bool
    ) -> list[Request]:
        """Return who need not wait any longer."""
        new = request.started_at >= self.until
        if new or (hinted and until > self.until):
            self.until, self.ramp = max(self.until, until), 1
        self.calm = 0
        if new and rate and self.learns:
            self.learned = min(10_000_000_000, 2 * self.learned or 250_000_000)
        if block:
            self.blocked = max(self.blocked, until)
        out = [
            other for other in self.having("waiting") if block or (self.until > now and other.deadline <= self.until)
        ]
        for other in out:
            other.state = "resting" if other.holds else "over"
        return out
