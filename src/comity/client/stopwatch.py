"""Stopwatch: where the time of one attempt went, phase after phase without a gap."""

from __future__ import annotations

from time import monotonic_ns
from typing import Literal

from comity.policy.attempt import Timings

Phase = Literal["pool", "dns", "connect", "tls", "upload", "response", "download"]


class Stopwatch:
    """Started at construction; `lap` ends the running phase and begins the next.

    Attributes:
        began: ns, monotonic.
        now: when the last phase ended, ns, monotonic.
    """

    __slots__ = ("began", "connect", "dns", "download", "now", "pool", "response", "tls", "upload")

    def __init__(self) -> None:
        self.began = self.now = monotonic_ns()
        self.pool = self.dns = self.connect = self.tls = self.upload = self.response = self.download = 0

    def lap(self, phase: Phase, at: int | None = None) -> int:
        """End a phase and return when: now, or `at` if that is not before the end of the phase before."""
        at = monotonic_ns() if at is None else max(at, self.now)
        setattr(self, phase, getattr(self, phase) + at - self.now)
        self.now = at
        return at

    def timings(self) -> Timings:
        """Return the phases in seconds."""
        return Timings(
            pool=self.pool / 1e9,
            dns=self.dns / 1e9,
            connect=self.connect / 1e9,
            tls=self.tls / 1e9,
            upload=self.upload / 1e9,
            response=self.response / 1e9,
            download=self.download / 1e9,
        )
