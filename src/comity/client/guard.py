"""Guard: who may be connected to, asked at the moment of connecting, so that no way to a target leads past it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Guard(Protocol):
    """Judges targets; `comity.service.guard.Guard` is one that keeps to the public internet."""

    def objection(self, host: str, addresses: Sequence[str], /) -> str | None:
        """Say why nobody may connect to a host.

        Args:
            host: the name or address that the URL holds.
            addresses: all that it was resolved to; or that of the peer, when the connection stands.

        Returns:
            The rule that speaks against it, without the address, which may be an inside matter; None to let it pass.
        """
        ...


class Objected(ConnectionError):
    """A guard let no connection come about.

    Args:
        rule: the one that it named.
    """

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule
