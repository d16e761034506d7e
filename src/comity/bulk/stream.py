"""Stream: results to standard output, a pipe or a device. Nothing can be found there again, so no run goes on there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from comity.bulk.files import write_all
from comity.bulk.output import Found
from comity.errors import StoreError


class Stream:
    """An open descriptor.

    Args:
        fd: where to write.
        name: what it is called in messages.
        owned: whether `close` closes it.
    """

    def __init__(self, fd: int, name: str, *, owned: bool = False) -> None:
        self.fd, self.name, self.owned = fd, name, owned

    def found(self) -> Iterator[Found]:
        """Yield nothing."""
        return iter(())

    def keep(self, wanted: Callable[[Found], bool]) -> None:
        """Do nothing: nothing was found."""

    def write(self, results: Sequence[bytes]) -> None:
        """Write results; blocks while the reader is slow.

        Raises:
            StoreError: the reader is gone, or the device is full.
        """
        try:
            write_all(self.fd, b"\n".join(results) + b"\n")
        except BlockingIOError:
            # The other end made the shared description non-blocking; results are to wait for their reader.
            os.set_blocking(self.fd, True)
            raise StoreError(f"{self.name}: it was switched to non-blocking while results were written") from None
        except OSError as error:
            raise StoreError(f"{self.name}: {error.strerror}") from error

    def sort(self) -> None:
        """Do nothing: what is written is gone."""

    def sync(self) -> None:
        """Do nothing: who reads it keeps it."""

    def close(self) -> None:
        """Close the descriptor if it is ours."""
        if self.owned:
            os.close(self.fd)
