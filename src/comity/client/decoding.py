"""Decoding: the body of an answer, its content codings undone while the bytes arrive, complete or an error.

The cap counts decoded bytes and is checked after every bounded step, so a bomb costs one step, not its size. It holds for
the coded bytes too, with room for their frames: an endless stream that decodes to nothing would never reach it otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from comity.client.codings import Coding, Undecodable, check_cap, coding

_LAYERS = 4
_ROOM = 64 * 1024  # bytes that the frames of a coded body may take beyond the body


class Body:
    """Collects an answer's body: undoes its codings and holds it to its cap.

    Args:
        codings: the names of the codings in the order of their application, by commas; None for none.
        cap: most bytes of the decoded body, None for no cap.
    """

    __slots__ = ("_cap", "_chain", "_coded", "_parts", "size")

    def __init__(self, codings: str | None, cap: int | None) -> None:
        self._cap = cap
        self._chain = _chain(codings, cap) if codings else []
        self._parts: list[bytes] = []
        self._coded = 0
        self.size = 0

    def feed(self, data: bytes) -> None:
        """Take bytes as they came.

        Raises:
            Damaged: the coded stream fails its checksum.
            Undecodable: it is no such stream, its coding is not known, or the body, decoded or coded, is over its cap.
        """
        if self._chain:
            self._coded += len(data)
            if self._cap is not None and self._coded > self._cap + self._cap // 8 + _ROOM:
                raise Undecodable(f"the coded body is far larger than max_body={self._cap}")
        for decoder in self._chain:
            data = decoder.feed(data)
        self.size += len(data)
        check_cap(self.size, self._cap)
        self._parts.append(data)

    def end(self) -> bytes:
        """Return the whole body.

        Raises:
            Damaged: a coded stream is not complete.
        """
        for decoder in self._chain:
            decoder.end()
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class Flow:
    """Undoes an answer's codings for whoever takes the pieces one by one: no piece is large, and nothing is kept.

    Args:
        codings: the names of the codings in the order of their application, by commas; None for none.
    """

    __slots__ = ("_chain",)

    def __init__(self, codings: str | None) -> None:
        self._chain = _chain(codings, None) if codings else []

    @property
    def coded(self) -> bool:
        """Whether there is anything to undo."""
        return bool(self._chain)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Return what `data` decodes to; take all of it before more is given.

        Raises:
            Damaged, Undecodable: as for `Body.feed`.
        """
        pieces = iter((data,))
        for decoder in self._chain:
            pieces = _through(decoder, pieces)
        return pieces

    def end(self) -> None:
        """Check that the body is complete.

        Raises:
            Damaged: a coded stream is not.
        """
        for decoder in self._chain:
            decoder.end()


def _through(decoder: Coding, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield from decoder.steps(piece)


def _chain(codings: str, cap: int | None) -> list[Coding]:
    """Return the decoders in the order of undoing."""
    names = [name.strip().lower() for name in codings.split(",") if name.strip()]
    if len(names) > _LAYERS:
        raise Undecodable(f"the answer wears {len(names)} content codings, at most {_LAYERS} are undone")
    return [coding(name, cap) for name in reversed(names) if name != "identity"]
