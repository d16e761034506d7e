"""Which path answers how: the table of the upstream, and the parameters that every path takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msgspec

from comity.testing.upstream import faults, plain
from comity.testing.upstream.answers import Answer, End, chunked, json, text
from comity.testing.upstream.exchange import Exchange
from comity.testing.upstream.journal import Arrival, Journal
from comity.testing.upstream.keyed import KeyedPaths

Path = Callable[[Exchange], Answer]

KEYED = frozenset({"flaky", "limited", "window", "bucket", "headers", "slots"})
"""Paths that keep state per key, and so are counted per key."""

NEEDS_BODY = frozenset({"echo"})
"""Paths that are asked when the request's body is there; every other decides when its head is."""

_OWN_MS = frozenset({"slots", "slow-body", "reset"})
_BATCH = 500


class Paths:
    """Answers each request by its path.

    Args:
        journal: what `/_log` and `/_stats` show.
        keep: how many keys are remembered.
        seed: of the random delays.
    """

    def __init__(self, journal: Journal, *, keep: int, seed: int) -> None:
        self._journal = journal
        self._keyed = KeyedPaths(journal, keep)
        # Its own generator: nothing else in the process can shift the sequence of a seeded run.
        self._random = random.Random(seed)
        keyed = self._keyed
        self._paths: dict[str, Path] = {
            "": _table,
            "ok": plain.ok_path,
            "status": plain.status_path,
            "delay": plain.delay_path,
            "echo": plain.echo_path,
            "redirect": plain.redirect_path,
            "set-cookie": plain.set_cookie_path,
            "flaky": keyed.flaky,
            "limited": keyed.limited,
            "window": keyed.window,
            "bucket": keyed.bucket,
            "headers": keyed.headers,
            "slots": keyed.slots,
            "hang": faults.hang,
            "reset": faults.reset,
            "truncate": faults.truncate,
            "slow-body": faults.slow_body,
            "endless": faults.endless,
            "_log": self._log,
            "_stats": self._stats,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The first segments that are answered."""
        return tuple(self._paths)

    def answer(self, exchange: Exchange) -> Answer:
        """Return the answer to one request; a 404 or 400 says what would have been right."""
        path = self._paths.get(exchange.name)
        if path is None:
            return text(404, f"no path /{exchange.name}; GET / lists them\n")
        try:
            found = path(exchange)
            if exchange.params:
                self._adjust(exchange, found)
        except ValueError as refused:
            return text(400, f"{refused}\n")
        return found

    def clear(self, *, state: bool = True) -> None:
        """Forget the log, the counters and the peaks; with `state` the limits and failures of every key too."""
        self._journal.clear()
        if state:
            self._keyed.clear()

    def _adjust(self, exchange: Exchange, found: Answer) -> None:
        params = exchange.params
        if exchange.name not in _OWN_MS:
            found.delay += params.time("ms", "0", "ms")
        jitter = params.time("jitter", "0", "ms")
        if jitter:
            found.delay += self._random.randint(0, jitter)
        close = params.choice("close", ("no", "yes", "silent", "reset"))
        if close != "no" and found.end is End.KEEP:
            found.end = {"yes": End.ANNOUNCED, "silent": End.CLOSE, "reset": End.RESET}[close]

    def _log(self, exchange: Exchange) -> Answer:
        if exchange.head.method == "DELETE":
            self.clear(state=exchange.params.choice("state", ("forget", "keep")) == "forget")
            return json(200, {"cleared": True})
        prefix = exchange.params.get("path") or ""
        return chunked(200, "application/json", _array(self._journal.arrivals(prefix)))

    def _stats(self, _exchange: Exchange) -> Answer:
        return json(200, self._journal.stats())


def _table(_exchange: Exchange) -> Answer:
    from comity.testing import upstream

    return text(200, upstream.__doc__ or "")


def _array(arrivals: list[Arrival]) -> Iterator[bytes]:
    """Encode a long list in batches, so that a log of a million entries is never one string."""
    before = b"["
    for start in range(0, len(arrivals), _BATCH):
        yield before + msgspec.json.encode(arrivals[start : start + _BATCH])[1:-1]
        before = b",\n"
    yield b"]" if arrivals else b"[]"
