"""Faults: what errors of Postgres and of the way to it mean for those who wanted something stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from comity.errors import StoreError, StoreReason

DRIVER = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What asyncpg raises. TimeoutError is an OSError."""

BROKEN = (asyncpg.InternalClientError, TimeoutError)
"""The connection is of no more use: the server ended it a moment ago, which asyncpg has not seen yet, or does not answer."""

LOST = (
    asyncpg.InternalClientError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    ConnectionError,
)
"""The server ended the connection, or is about to, whether asyncpg has seen that or not; it did not fall silent."""

AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""Undone by the database for the sake of another transaction: the same again may well succeed."""

WHOLE = (
    asyncpg.DiskFullError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
)
"""The store takes nothing of this kind from anybody: whatever else was to be written with it fails for the same reason."""

_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], StoreReason, str], ...] = (
    (asyncpg.DiskFullError, "full", "the database's disk is full: nothing of this was stored; make room and try again"),
    (
        (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InsufficientPrivilegeError),
        "denied",
        "the database does not let this user in, or not do this",
    ),
    (asyncpg.ReadOnlySQLTransactionError, "denied", "the database may only be read: is it a standby?"),
    (asyncpg.InvalidCatalogNameError, "schema", "create the database first"),
    ((asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError), "schema", "the store is not migrated"),
    (asyncpg.TooManyConnectionsError, "busy", "the database takes no more connections: see its max_connections"),
    (AGAIN, "busy", "other transactions stood in the way again and again"),
    ((asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError), "corrupt", "the database is damaged: restore a copy"),
    (
        (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, *BROKEN, OSError),
        "failed",
        "no connection to the database; the next call tries again",
    ),
)


def fault(error: Exception) -> StoreError:
    """Return the StoreError that says what one of asyncpg's errors means."""
    for kind, reason, meaning in _REASONS:
        if isinstance(error, kind):
            return StoreError(f"Postgres: {_said(error)} ({meaning})", reason=reason)
    return StoreError(f"Postgres: {_said(error)}")


@contextmanager
def translated() -> Iterator[None]:
    """Raise asyncpg's errors as StoreError."""
    try:
        yield
    except DRIVER as error:
        raise fault(error) from error


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    # A server's own words only: a detail may quote a row's values.
    return str(getattr(error, "message", None) or error) or type(error).__name__
