"""Stopwatch: where the time of one attempt went, phase after phase without a gap."""

from __future__ import annotations

from time import monotonic_ns
from typing import Literal

from comity.policy.attempt import Timings

Phase = Literal["pool", "dns", "connect", "tls", "upload", "response", "download"]


class Stopwatch:
    """Runs from its construction, in the phase "pool"; entering a phase ends the one before.

    Attributes:
        began: ns, monotonic.
        now: when the running phase began, ns, monotonic.
        phase: the running phase.
    """

    __slots__ = ("began", "connect", "dns", "download", "now", "phase", "pool", "response", "tls", "upload")

    def __init__(self) -> None:
        self.began = self.now = monotonic_ns()
        self.pool = self.dns = self.connect = self.tls = self.upload = self.response = self.download = 0
        self.phase: Phase = "pool"

    def enter(self, phase: Phase, at: int | None = None) -> int:
        """Begin a phase now, or at `at` if that is not before the running one began; return when."""
        at = monotonic_ns() if at is None else max(at, self.now)
        setattr(self, self.phase, getattr(self, self.phase) + at - self.now)
        self.phase, self.now = phase, at
        return at

    def stop(self) -> Timings:
        """End the running phase and return all of them in seconds."""
        self.enter(self.phase)
        return Timings(
            pool=self.pool / 1e9,
            dns=self.dns / 1e9,
            connect=self.connect / 1e9,
            tls=self.tls / 1e9,
            upload=self.upload / 1e9,
            response=self.response / 1e9,
            download=self.download / 1e9,
        )
