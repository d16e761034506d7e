"""Spent: what a request really cost, told by the body of its answer while that passes by."""

from __future__ import annotations

from typing import Any

from comity.client import media
from comity.engine.call import Slot
from comity.policy.usage import Usage

LONGEST = 16 * 1024 * 1024
"""A longer body is not kept for this; what the request was charged with stands."""


class Spent:
    """Listens to one body.

    Args:
        library: whose answer it is.
        answer: its head.
        usage: where the answer tells it.
        slot: of the attempt.
    """

    def __init__(self, library: Any, answer: Any, usage: Usage, slot: Slot) -> None:
        self._library, self._answer, self._usage, self._slot = library, answer, usage, slot
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Take the next bytes, as they came."""
        self._size += len(piece)
        if self._size <= LONGEST:
            self._pieces.append(piece)

    def end(self) -> None:
        """Correct the cost, now that the body is whole."""
        if self._size > LONGEST:
            return
        answer = self._answer
        try:
            whole = self._library.Response(answer.status_code, headers=answer.headers, content=b"".join(self._pieces))
        except self._library.DecodingError:
            return  # whoever reads the body is told
        whole.field = lambda path: media.json_field(whole.content, path)
        actual = self._usage.actual(whole)
        if actual is not None:
            self._slot.settle(actual)
