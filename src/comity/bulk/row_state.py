"""RowState: how far a run has come with a row."""

from __future__ import annotations

import msgspec


class RowState(msgspec.Struct, gc=False):
    """What a run notes of a row while it sends it.

    Attributes:
        began: when it was first sent, ns, 0 before.
        sends: how often it was sent.
        intended: whether the journal knows that it is being sent.
        parked: whether it waits for another attempt, or is about to end.
        lane: the name of its lane, "" before it has one.
        uncertain: whether the last attempt that reached the wire brought no answer.
    """

    began: int = 0
    sends: int = 0
    intended: bool = False
    parked: bool = False
    lane: str = ""
    uncertain: bool = False
