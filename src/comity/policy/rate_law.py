"""RateLaw: how many per second, learned from refusals (429) alone.

Theory. An episode of refusals begins with the first refusal of a request that started after the last episode ended;
refusals of what was under way anyway tell nothing new. While it lasts one probe at a time goes out, at growing distance or
when the server said; the first that is accepted ends it. Whatever counts at the server, a bucket or a window, stands at
the same mark whenever an episode ends. So what was accepted between two such ends, over the time between them, is the rate
R at which it refills, whatever its size. Then the pace is, for the time t in which the pace itself held requests back,

    SAFE * R + CREEP * sqrt(R) * t           for t < 8 s, so slowly that a refusal is rare
    that at 8 s * e^(x + x^2)                from then on, x = (t - 8 s) / 8 s, in case that R grew

R so measured is too low when the store at the server ran over because the pace was low. The largest R that explains why
the fast growth met a refusal no sooner is then better: what was sent beyond it is what the server can have had in store.
A bucket stores what was accepted before the very first refusal. A window is known by refusals that last although several
requests' worth of time passed; it stores what its limit is above the pace, and episodes closer than its length say nothing.

Where 8 s hold few requests, or many are under way when a refusal is noticed, refusals so would not be rare. Time is therefore
slower by a factor, `caution`: it doubles with each episode that cost more than DEAR of what was accepted since the one
before, and halves after one that cost less than CHEAP. Where R has changed it runs as usual again.

What a server announces of its quotas is not this law's business (see `Spread`): here refusals alone speak.
"""

from __future__ import annotations

import math

from comity.policy.units import NS

SAFE = 0.97
CREEP = 0.03
LEAP_AFTER, LEAP = 8.0, 8.0
"""Seconds of the slow growth, and the unit of the fast."""
FASTEST = 5.0
"""The largest x."""
ENOUGH = 4
"""A first estimate takes so many accepted requests; fewer say nothing, and nothing is held back then."""
IDLE = 5_000_000_000
"""Time without starts, of which the server's store profits, begins the measurement anew."""
PRIOR = 2.0
"""The estimate before counts like so many accepted requests against a new one."""
FIRST_WAIT, LEAST_WAIT, MOST_WAIT = 250_000_000, 50_000_000, 1_000_000_000
"""The wait before the first probe while no rate is known, and bounds of every wait that the server did not name."""
PATIENT = 3
"""A wait may be longer if refusals last already for PATIENT times as long: a window of an hour is not asked every second."""
PROBE_AFTER = 2.0
"""With a known rate the first probe goes out when so many requests' worth of time has passed."""
PATIENCE = 5_000_000_000
"""A probe without an answer holds others back for so long."""
BARREN = 4.0
"""Refusals over so many requests' worth of time tell a window from a bucket, ..."""
LONG_HINT = 5_000_000_000
"""... and so does a server that names a wait of so long."""
GREW = 1.2
"""The growth of the pace from which R may have been too low."""
DEAR, CHEAP = 0.03, 0.01
"""Refusals for each accepted request."""
OTHER = 1.5
"""The change from the last two estimates that is a new rate; one that comes and goes is an accident of few requests."""
MOST_CAUTION = 16.0
STEPS, HALVINGS = 40, 16
"""The accuracy with which it is found out."""
SLOWEST = 1 / 60
"""Starts per second that are always allowed, as a server so slow names its times."""
EVERY = 100_000_000
"""The pace is worked out so often."""


class RateLaw:
    """The earliest next start.

    Args:
        now: ns.
        refused: how many were refused already and count no more.

    Attributes:
        rate: R, requests per second; None while unknown.
        refused: an episode is under way.
        caution: the factor by which the pace grows slower.
        until: ns.
    """

    __slots__ = (
        "_barren", "_began", "_cost", "_earlier", "_gap", "_gap_until", "_last", "_mark", "_paced_for", "_paced_from",
        "_probe_from", "_refusals", "_store", "_wait", "_window", "caution", "rate", "refused", "until",
    )  # fmt: skip

    def __init__(self, now: int, *, refused: int = 0) -> None:
        self.rate: float | None = None
        self.refused = False
        self.until = now
        self._last = now - IDLE - 1  # when the last one started
        self._mark = 0, now  # what was accepted, and when, as the last episode ended
        self._store = 0.0, 1.0  # what was accepted before the first refusal of all, and in how many seconds
        self._window = 0.0  # the length of the server's window, s; 0: it is no window
        self._refusals = refused
        self._probe_from = 0  # the first rank that is not of before the episode
        self._began = self._barren = 0
        self._wait = FIRST_WAIT
        self._cost = refused, 0  # what was refused, and accepted, as the last episode ended
        self._earlier = math.inf  # the estimate before the last
        self.caution = 1.0
        self._paced_from, self._paced_for = now, 0.0
        self._gap = self._gap_until = 0

    def recall(self, rate: float, now: int) -> None:
        """Begin with a rate that is known from before, and a store of about a second."""
        self.rate = rate
        self._store = 2 * rate, 1.0
        self._paced_from = now
        self._plan(now)

    def begin(self, rank: int, now: int) -> None:
        """Note a start, the `rank`th."""
        if now - self._last > IDLE and not self.refused:
            self._mark = rank - self._refusals, now
        self._last = now
        if self.refused:
            self.until = now + PATIENCE
            return
        if self.rate is None:
            return
        if now >= self._gap_until:
            self._plan(now)
        idle = now - self.until
        if idle > 0:
            self._paced_from += idle
            self.until = now + self._gap
        else:
            self.until += self._gap

    def accept(self, rank: int, now: int, following: int) -> None:
        """Note that start `rank` was no refusal; it may end an episode. `following` is the rank of the next start."""
        if not self.refused or rank < self._probe_from:
            return
        self.refused = False
        accepted, (before, then) = following - self._refusals, self._mark
        count, span = max(1, accepted - before), max(1, now - then) / NS
        if not self._window and self._barren * (self.rate or count / span) >= BARREN * NS:
            self._window = span
        if self.rate is None:
            if count < ENOUGH:
                self.until = now
                return
            self.rate = self._first(count / span)
        else:
            known = self.rate
            if span >= self._window:
                measured = (count + PRIOR) / (span + PRIOR / known)
                self.rate = max(measured, self._grown(known))
            seen, self._earlier = (known, self._earlier), known
            self._weigh(accepted, changed=not any(1 / OTHER < self.rate / before < OTHER for before in seen))
        self._cost = self._refusals, accepted
        if span >= self._window:
            self._mark = accepted, now
        self._paced_from = now
        self._plan(now)
        self.until = now + self._gap

    def refuse(self, rank: int, started: int, now: int, following: int, hint: int | None) -> None:
        """Note a refusal.

        Args:
            rank: of the start that was refused.
            started: when it was, ns.
            now: ns.
            following: the rank of the next start.
            hint: the wait that the server named, ns, or None.
        """
        self._refusals += 1
        if self.refused and rank >= self._probe_from:
            self._barren = max(self._barren, started - self._began)
            longest = max(MOST_WAIT, (now - self._began) // PATIENT)
            self._wait = min(longest, self._wait * 2)
            self.until = now + (self._wait if hint is None else hint)
        elif self.refused or rank < self._probe_from:
            if hint is not None:
                self.until = max(self.until, now + hint)
        else:
            self._begin_episode(rank, started, now, hint)
            self._probe_from = following

    def crowded(self) -> None:
        """Note a refusal that was about how many run at once."""
        self._refusals += 1

    def pace(self, now: int) -> float:
        """Return the present pace, starts per second."""
        return math.inf if self.rate is None else self._pace(self.rate, (now - self._paced_from) / NS)

    # ---- helpers

    def _begin_episode(self, rank: int, started: int, now: int, hint: int | None) -> None:
        self.refused = True
        self._began = now
        self._barren = hint if hint is not None and hint >= LONG_HINT else 0
        self._paced_for = max(0, started - self._paced_from) / NS
        if self.rate is None:
            before, then = self._mark
            self._store = float(rank + 1 - self._refusals - before), max(1, started - then) / NS
            self._wait = FIRST_WAIT
        else:
            self._wait = min(FIRST_WAIT, max(LEAST_WAIT, int(PROBE_AFTER * NS / self.rate)))
        self.until = now + (self._wait if hint is None else hint)

    def _weigh(self, accepted: int, *, changed: bool) -> None:
        """Grow more slowly after an episode that cost much and found out nothing new."""
        refusals, before = self._cost
        cost, gain = self._refusals - refusals, max(1, accepted - before)
        if changed:
            self.caution = 1.0
        elif cost > DEAR * gain:
            self.caution = min(MOST_CAUTION, 2 * self.caution)
        elif cost < CHEAP * gain:
            self.caution = max(1.0, self.caution / 2)

    def _pace(self, rate: float, t: float) -> float:
        """Return the pace after t s: with caution as if a second were shorter by that factor."""
        return _pace(rate * self.caution, t / self.caution) / self.caution

    def _first(self, least: float) -> float:
        """Return the first estimate: between the rate with the episode in it and that before it, which had a full store."""
        count, span = self._store
        return least if self._window else math.sqrt(least * max(least, count / span))

    def _grown(self, rate: float) -> float:
        """Return the rate at which the server's store lasted until the growth of the pace met a refusal; 0: no growth."""
        low, high = 0.0, self._pace(rate, self._paced_for)
        if high <= GREW * rate:
            return 0.0
        count, span = self._store
        step = self._paced_for / STEPS
        paces = [self._pace(rate, step * k) for k in range(STEPS)]
        for _ in range(HALVINGS):
            guess = 0.5 * (low + high)
            store = count * (1 - paces[0] / guess) if self._window else count - guess * span
            if step * sum(pace - guess for pace in paces if pace > guess) > store:
                low = guess
            else:
                high = guess
        return low

    def _plan(self, now: int) -> None:
        self._gap = math.ceil(NS / max(SLOWEST, self.pace(now)))
        self._gap_until = now + EVERY


def _pace(rate: float, t: float) -> float:
    pace = SAFE * rate + CREEP * math.sqrt(rate) * min(t, LEAP_AFTER)
    if t <= LEAP_AFTER:
        return pace
    x = min(FASTEST, (t - LEAP_AFTER) / LEAP)
    return pace * math.exp(x + x * x)
