"""Connecting: how every connection to the database is set up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import asyncpg

from comity import redact
from comity.errors import OptionsError

SECONDS = 10.0
"""So long connecting may take."""

PATIENCE = 10.0
"""So long the answer to a statement may take, s. Nothing that a store asks for takes a second; what does not answer for so long
is a server that stands still, or a network that swallows what it is given, and neither is noticed otherwise."""

_SETTINGS = {
    "application_name": "comity",
    # Whoever stands still, or is cut off, in the middle of a transaction holds what all others wait for. It has to be less than
    # PATIENCE, so that they only wait.
    "idle_in_transaction_session_timeout": "5s",
    # And a process whose machine is gone keeps its connections for a minute, rather than for two hours.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    # Short statements, again and again: compiling one costs more than it saves.
    "jit": "off",
    # Tables that are empty now and hold millions later: a plan made for the empty one would stay, so only those that are right
    # for both are allowed.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


class Place(NamedTuple):
    """Where a store is.

    Args:
        dsn: `postgresql://user:password@host:port/database`; what it leaves out comes from PGHOST and the like.
        schema: of the database.
        patience: seconds that the answer to a statement may take; None for any.
    """

    dsn: str
    schema: str = "comity"
    patience: float | None = PATIENCE

    @property
    def channel(self) -> str:
        """Where news of it are told."""
        return f"comity {self.schema}"[:63]

    @property
    def quoted(self) -> str:
        """The schema as SQL writes it."""
        return '"' + self.schema.replace('"', '""') + '"'

    @property
    def arguments(self) -> dict[str, Any]:
        """What asyncpg's `connect` and `create_pool` need."""
        return {
            "dsn": self.dsn,
            "timeout": SECONDS if self.patience is None else min(SECONDS, self.patience),
            "command_timeout": self.patience,
            "server_settings": {**_SETTINGS, "search_path": self.quoted},
            # The statements are few and the same for as long as the connection lasts.
            "statement_cache_size": 1000,
            "max_cached_statement_lifetime": 0,
        }

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """Open a connection.

        Raises:
            OptionsError: as of `understood`.
            OSError, asyncpg.PostgresError, asyncpg.InterfaceError: there is none to be had.
        """
        with self.understood():
            return await asyncpg.connect(**self.arguments)

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Connect in this block.

        Raises:
            OptionsError: the driver cannot make sense of the DSN, of which it tells by plain ValueErrors.
        """
        try:
            yield
        except (ValueError, OverflowError) as error:
            allowed = "postgresql://user:password@host:port/database"
            # Its own words name a parameter that is wrong, but of any other error they may quote a part of the password.
            reason = str(error) if isinstance(error, asyncpg.InterfaceError) else ""
            raise OptionsError("dsn", redact.url(self.dsn), allowed, reason=reason) from None
