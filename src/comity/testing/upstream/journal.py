"""What reached the upstream: the log of arrivals, the counters, and the peaks.

Times are `time.monotonic_ns()` of the serving process. A window of `per` is half open: two arrivals exactly `per`
apart do not share one. The journal is written by the serving thread and may be read from any other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

import msgspec


class Arrival(msgspec.Struct, gc=False):
    """One request, logged when its head had been read and before anything else was done.

    Attributes:
        at: when it arrived, monotonic ns.
        connection: number of the connection that brought it, from 1.
        method: as sent.
        target: the request target exactly as sent, one character per byte.
        key: the path after its first segment: `a` of `/limited/a`.
        host: the Host field.
        status: the status answered, None while there is none (or never will be).
        first_byte: when the answer's first byte was handed to the socket, monotonic ns, else None.
        finished: when the answer's last byte was handed over or the connection was lost, monotonic ns, else None.
        headers: (name, value) pairs in the order sent; kept only by `Upstream(capture=True)`.
        body: the first 64 KiB of the body; kept only by `Upstream(capture=True)`.
    """

    at: int
    connection: int
    method: str
    target: str
    key: str
    host: str
    status: int | None = None
    first_byte: int | None = None
    finished: int | None = None
    headers: list[tuple[str, str]] | None = None
    body: bytes | None = None


class Count(msgspec.Struct):
    """How many requests there were and how many at once.

    Attributes:
        count: arrivals.
        in_flight: arrived, and neither answered to the last byte nor lost.
        max_in_flight: the largest `in_flight` seen.
    """

    count: int = 0
    in_flight: int = 0
    max_in_flight: int = 0

    def enter(self) -> None:
        """Count one arrival."""
        self.count += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)


class Window(msgspec.Struct, frozen=True):
    """The fullest window of one limited key.

    Attributes:
        per_ns: length of the window in ns.
        arrivals: the most requests that arrived in any sliding window of that length.
        accepted: the most that were accepted in one.
        refused: how many were refused in all.
    """

    per_ns: int
    arrivals: int
    accepted: int
    refused: int


class Stats(msgspec.Struct, frozen=True):
    """Totals and peaks since the start or the last clear; requests for `/_...` are not counted.

    Attributes:
        total: over all paths.
        connections: connections opened.
        open_connections: those open now.
        statuses: answers by status.
        lost: requests whose client went away before their answer was done.
        paths: by first path segment, `/ok`.
        keys: by key for the paths that keep state, `/limited/a`.
        windows: the fullest window of each limited key.
    """

    total: Count
    connections: int
    open_connections: int
    statuses: dict[int, int]
    lost: int
    paths: dict[str, Count]
    keys: dict[str, Count]
    windows: dict[str, Window]


def peak(times: Iterable[int], per: int) -> int:
    """Return the largest number of `times` that fall into one window of `per`.

    Args:
        times: ns, in any order.
        per: length of the window in ns.
    """
    counter = SlidingPeak(per, keep=None)
    for at in sorted(times):
        counter.add(at)
    return counter.most


class SlidingPeak:
    """The fullest sliding window of a stream of ascending times.

    Args:
        per: length of the window in ns.
        keep: how many times at most are held; a window fuller than that reads as `keep`.
    """

    __slots__ = ("_times", "most", "per")

    def __init__(self, per: int, *, keep: int | None) -> None:
        self.per = per
        self.most = 0
        self._times: deque[int] = deque(maxlen=keep)

    def add(self, at: int) -> None:
        """Count one time; it must not be earlier than the one before."""
        times = self._times
        while times and at - times[0] >= self.per:
            times.popleft()
        times.append(at)
        self.most = max(self.most, len(times))


class _WindowPeak:
    __slots__ = ("accepted", "arrivals", "refused")

    def __init__(self, per: int, keep: int) -> None:
        self.arrivals = SlidingPeak(per, keep=keep)
        self.accepted = SlidingPeak(per, keep=keep)
        self.refused = 0


class Journal:
    """The log, the counters and the peaks of one upstream.

    Args:
        keep: how many arrivals and how many keys are remembered; the oldest are forgotten first.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._opened = 0
        self._open = 0
        self._total = Count()
        self._forget()

    def opened(self) -> int:
        """Count a new connection and return its number."""
        with self._lock:
            self._opened += 1
            self._open += 1
            self._opened_since_clear += 1
            return self._opened

    def closed(self) -> None:
        """Count a connection that ended."""
        with self._lock:
            self._open -= 1

    def arrived(self, arrival: Arrival, path: str, key: str | None) -> tuple[Count, ...]:
        """Log an arrival; return the counters that `left` takes when its answer is complete."""
        with self._lock:
            self._log.append(arrival)
            counters = [self._total, _at(self._paths, path, self._keep)]
            if key is not None:
                counters.append(_at(self._keys, key, self._keep))
            for counter in counters:
                counter.enter()
            return tuple(counters)

    def judged(self, key: str, per: int, at: int, *, accepted: bool) -> None:
        """Count an arrival at a limited key; another `per` than before starts its windows anew."""
        with self._lock:
            window = self._windows.get(key)
            if window is None or window.arrivals.per != per:
                _make_room(self._windows, self._keep)
                window = self._windows[key] = _WindowPeak(per, self._keep)
            window.arrivals.add(at)
            if accepted:
                window.accepted.add(at)
            else:
                window.refused += 1

    def left(self, counters: tuple[Count, ...], status: int | None, *, complete: bool) -> None:
        """Count a request whose answer is complete, or whose connection ended before that."""
        with self._lock:
            for counter in counters:
                counter.in_flight -= 1
            if status is not None:
                self._statuses[status] = self._statuses.get(status, 0) + 1
            self._lost += not complete

    def arrivals(self, prefix: str = "") -> list[Arrival]:
        """Return the logged arrivals whose target starts with `prefix`, oldest first."""
        with self._lock:
            log = list(self._log)
        return [arrival for arrival in log if arrival.target.startswith(prefix)] if prefix else log

    def stats(self) -> Stats:
        """Return a copy of the totals and peaks."""
        with self._lock:
            return Stats(
                total=_copy(self._total),
                connections=self._opened_since_clear,
                open_connections=self._open,
                statuses=dict(sorted(self._statuses.items())),
                lost=self._lost,
                paths={path: _copy(count) for path, count in self._paths.items()},
                keys={key: _copy(count) for key, count in self._keys.items()},
                windows={
                    key: Window(peaks.arrivals.per, peaks.arrivals.most, peaks.accepted.most, peaks.refused)
                    for key, peaks in self._windows.items()
                },
            )

    def clear(self) -> None:
        """Forget every arrival, counter and peak; what is in flight now is still counted as that."""
        with self._lock:
            self._forget()
            # The requests in flight hold the total and will leave it, so it lives on.
            self._total.count, self._total.max_in_flight = 0, self._total.in_flight

    def _forget(self) -> None:
        self._log: deque[Arrival] = deque(maxlen=self._keep)
        self._opened_since_clear = 0
        self._statuses: dict[int, int] = {}
        self._lost = 0
        self._paths: dict[str, Count] = {}
        self._keys: dict[str, Count] = {}
        self._windows: dict[str, _WindowPeak] = {}


def _at(counts: dict[str, Count], name: str, keep: int) -> Count:
    count = counts.get(name)
    if count is None:
        _make_room(counts, keep)
        count = counts[name] = Count()
    return count


def _make_room(table: dict[str, Count] | dict[str, _WindowPeak], keep: int) -> None:
    if len(table) >= keep:
        del table[next(iter(table))]


def _copy(count: Count) -> Count:
    return Count(count.count, count.in_flight, count.max_in_flight)
