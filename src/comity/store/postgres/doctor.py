"""Doctor: what slows a Postgres store down, or lets it lose what it acknowledged, long before anybody notices."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from comity.store.postgres.connecting import Place
from comity.store.postgres.migrations import version

_HEALTH = """
SELECT current_setting('server_version'),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000,
    (SELECT max(age(backend_xmin)) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()),
    (SELECT (extract(epoch FROM max(clock_timestamp() - xact_start)) * 1000000)::bigint * 1000 FROM pg_stat_activity
        WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'),
    (SELECT max(age(xmin)) FROM pg_replication_slots WHERE xmin IS NOT NULL),
    (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1),
    (SELECT coalesce(sum(n_live_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1),
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    current_setting('max_connections')::integer,
    current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off',
    current_setting('autovacuum') = 'on'
"""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a store's database is.

    Args:
        server: its version.
        schema: the number of the last migration.
        skew: its clock less this machine's, ns, give or take half of `round_trip`.
        round_trip: how long a question takes, ns.
        oldest_xmin: so many transactions ago began the oldest that is still looked at: what died since cannot be cleaned up.
        longest_transaction: how long the longest one is open, ns.
        slot_xmin: as `oldest_xmin`, held back by a replication slot.
        dead, live: rows that are not cleaned up yet, and rows that there are, as the server estimates.
        connections, most_connections: of the whole server.
        durable: what is committed is on the disk.
        cleaned: autovacuum is on.
    """

    server: str
    schema: int
    skew: int
    round_trip: int
    oldest_xmin: int
    longest_transaction: int
    slot_xmin: int
    dead: int
    live: int
    connections: int
    most_connections: int
    durable: bool
    cleaned: bool


_SECOND = 1_000_000_000
_MOST_SKEW = 5 * _SECOND
_MOST_OPEN = 300 * _SECOND
_MOST_DEAD = 100_000


def warnings(found: Health) -> list[str]:
    """Return what somebody should look at."""
    told = []
    if not found.durable:
        told.append("fsync or synchronous_commit is off: what was acknowledged can be lost with the server's power")
    if not found.cleaned:
        told.append("autovacuum is off: the tables grow and claims become slow")
    if abs(found.skew) > _MOST_SKEW + found.round_trip:
        told.append(
            f"its clock and this machine's differ by {abs(found.skew) / _SECOND:.1f} s; the service goes by the database's"
        )
    if found.longest_transaction > _MOST_OPEN:
        told.append(
            f"a transaction has been open for {found.longest_transaction // _SECOND} s: until it ends, nothing that was deleted "
            f"or changed in {found.oldest_xmin} transactions since can be cleaned up (pg_stat_activity, xact_start)"
        )
    if found.slot_xmin > _MOST_DEAD:
        told.append("a replication slot keeps rows from being cleaned up (pg_replication_slots, xmin)")
    if found.dead > max(_MOST_DEAD, found.live):
        told.append(f"{found.dead} rows wait to be cleaned up, more than there are: autovacuum does not keep up")
    if found.connections * 10 > found.most_connections * 9:
        told.append(f"{found.connections} of {found.most_connections} connections are in use")
    return told


async def health(db: Any, place: Place) -> Health:
    """Ask for them."""
    done = await version(db, place)
    asked, began = time.time_ns(), time.monotonic_ns()
    row = await db.fetchrow(_HEALTH, place.schema)
    took = time.monotonic_ns() - began
    return Health(
        server=row[0],
        schema=done,
        skew=row[1] - asked - took // 2,
        round_trip=took,
        oldest_xmin=row[2] or 0,
        longest_transaction=row[3] or 0,
        slot_xmin=row[4] or 0,
        dead=row[5],
        live=row[6],
        connections=row[7],
        most_connections=row[8],
        durable=row[9],
        cleaned=row[10],
    )
