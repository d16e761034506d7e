"""Stacked: notices that somebody above retries what was retried here already, so that the sends multiply.

Theory. A call that failed after several sends leaves a note in the context of the task or thread that made it. A retry from
above comes from the same task or thread, soon, and asks for the same: then it is met by the note. Another task that happens
to ask for the same has another context and is met by none.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from time import monotonic
from typing import NamedTuple

from comity import redact
from comity.errors import StackedRetries

SOON = 60.0
"""Seconds within which the same request again is taken for a retry; clients wait up to a Retry-After, usually at most 60 s."""

log = logging.getLogger("comity")


class Asked(NamedTuple):
    """What a request asks for, however it is headed.

    Args:
        method, url: as sent.
        digest: of the body; None when that cannot be known before it is sent.
    """

    method: str
    url: str
    digest: bytes | None

    @classmethod
    def of(cls, method: str, url: str, content: bytes | None) -> Asked:
        """Return what a request with that body asks for."""
        return cls(method, url, None if content is None else hashlib.blake2b(content, digest_size=16).digest())


class _GivenUp(NamedTuple):
    owner: int
    asked: Asked
    sends: int
    at: float


_given_up: ContextVar[_GivenUp | None] = ContextVar("comity_given_up", default=None)


class Stacked:
    """Watches the calls of one transport; it warns once.

    Args:
        time: monotonic, in seconds.
    """

    def __init__(self, time: Callable[[], float] = monotonic) -> None:
        self._warned, self._time = False, time

    def gave_up(self, asked: Asked, sends: int) -> None:
        """Note, in this task or thread, a call that failed; only one that was sent again can be stacked upon."""
        if sends > 1 and asked.digest is not None and not self._warned:
            _given_up.set(_GivenUp(id(self), asked, sends, self._time()))

    def check(self, asked: Asked) -> None:
        """Warn if what is asked for now is what failed here just before.

        Raises:
            StackedRetries: warnings are errors.
        """
        note = None if self._warned else _given_up.get()
        if note is None or (note.owner, note.asked) != (id(self), asked) or self._time() - note.at > SOON:
            return
        self._warned = True
        text = (
            f"{asked.method} {redact.url(asked.url)} is asked for again right after it failed in {note.sends} sends: whoever "
            f"calls retries too, and each of its tries may be {note.sends} sends or more. Leave retries to one layer: switch "
            "them off in the client above (max_retries=0 of an SDK), or say retry=0 of this transport"
        )
        log.warning("%s", text)
        warnings.warn(text, StackedRetries, stacklevel=2)
