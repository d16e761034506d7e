"""One Postgres database, several processes: lost connections, restarts, order, news and what a doctor asks."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import asyncpg
import msgspec
import pytest

from comity.errors import LeaseLost, OptionsError, StoreError
from comity.policy.units import NS
from comity.store.postgres.doctor import Health, warnings
from comity.store.postgres.faults import fault
from comity.store.postgres.migrations import migrate
from comity.store.postgres.store import PostgresStore
from comity.store.records import Ended, Retention
from comity.store.schema import numbered
from comity.testing.conformance.stage import LEASE, OK, claims, everything, known, new, submit, worker
from tests.store.postgres_server import EmbeddedServer
from tests.store.store_load import accounted, loaded

FILES = numbered("postgres")
NEWEST = len(FILES)
LATER = (f"{NEWEST + 1:04}_later", "ALTER TABLE lanes ADD COLUMN later bigint NOT NULL DEFAULT 7")


@pytest.fixture
async def stores(postgres_stage):
    """Two processes' stores on one database."""
    return [await postgres_stage.open() for _ in range(2)]


@pytest.fixture(scope="module")
def own_server():
    server = EmbeddedServer()
    yield server
    server.remove()


def test_files_are_numbered_without_a_gap():
    assert [int(name.partition("_")[0]) for name, _ in FILES] == list(range(1, NEWEST + 1))


async def test_a_schema_is_made_by_migrating_and_not_by_opening(postgres_stage):
    """NP-034"""
    dsn, schema = postgres_stage.dsn, postgres_stage.schema
    with pytest.raises(StoreError, match="is empty: migrate it first") as refused:
        await PostgresStore.open(dsn, schema=schema)
    assert refused.value.reason == "schema"
    both = await asyncio.gather(migrate(dsn, schema=schema), migrate(dsn, schema=schema))
    assert sorted(both) == [[], [name for name, _ in FILES]]


@pytest.mark.parametrize("version", range(1, NEWEST))
async def test_new_code_on_an_old_schema_refuses_and_an_old_one_is_brought_up(postgres_stage, version):
    """NP-034"""
    dsn, schema = postgres_stage.dsn, postgres_stage.schema
    await migrate(dsn, schema=schema, to=version)
    with pytest.raises(StoreError, match=f"has schema {version} and this version needs {NEWEST}"):
        await PostgresStore.open(dsn, schema=schema)
    assert await migrate(dsn, schema=schema) == [name for name, _ in FILES[version:]]
    store = await postgres_stage.open()
    await submit(store)


async def test_a_store_in_use_is_brought_up_to_a_later_version_with_all_that_it_holds(postgres_stage, monkeypatch):
    """NP-034: whoever has it open goes on meanwhile."""
    store = await postgres_stage.open()
    before = await submit(store, new(1, lane="old"))
    monkeypatch.setattr("comity.store.postgres.migrations.numbered", lambda _: (*FILES, LATER))
    with pytest.raises(StoreError, match=f"has schema {NEWEST} and this version needs {NEWEST + 1}"):
        await postgres_stage.open()
    assert await migrate(postgres_stage.dsn, schema=postgres_stage.schema) == [LATER[0]]
    assert [tuple(row) for row in await postgres_stage.sql("SELECT key, later FROM lanes")] == [("old", 7)]
    for each in (store, await postgres_stage.open()):
        assert [(await known(each, number)).id for number in before] == before
        await submit(each)


async def test_a_newer_schema_and_another_programs_are_refused(postgres_stage):
    dsn, schema = postgres_stage.dsn, postgres_stage.schema
    await migrate(dsn, schema=schema)
    await postgres_stage.sql(f"UPDATE store SET version = {NEWEST + 1}")
    for use in (PostgresStore.open, migrate):
        with pytest.raises(StoreError, match="use the newer comity"):
            await use(dsn, schema=schema)
    await postgres_stage.sql("ALTER TABLE store RENAME TO theirs")
    for use in (PostgresStore.open, migrate):
        with pytest.raises(StoreError, match="no store of comity"):
            await use(dsn, schema=schema)


async def test_options_and_addresses_that_cannot_be_used_are_refused(postgres):
    with pytest.raises(OptionsError, match="ageing"):
        await PostgresStore.open(postgres, ageing=-1)
    with pytest.raises(StoreError, match="no connection to the database"):
        await PostgresStore.open("postgresql://postgres@127.0.0.1:1/test")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (asyncpg.DiskFullError("x"), "full"),
        (asyncpg.InvalidPasswordError("x"), "denied"),
        (asyncpg.InvalidCatalogNameError("x"), "schema"),
        (asyncpg.TooManyConnectionsError("x"), "busy"),
        (asyncpg.DeadlockDetectedError("x"), "busy"),
        (asyncpg.DataCorruptedError("x"), "corrupt"),
        (ConnectionRefusedError("x"), "failed"),
        (asyncpg.DivisionByZeroError("x"), "failed"),
    ],
)
def test_each_of_postgres_errors_has_a_reason(error, reason):
    assert fault(error).reason == reason


async def test_two_workers_on_one_database_claim_nothing_twice_and_share_no_origin(stores):
    """DD-04: each origin's limits have one owner, whatever both ask for at the same moment."""
    numbers = []
    for each in range(120):
        numbers += await submit(stores[each % 2], new(each, origin=f"https://host{each % 6}:443"))
    leases = [await store.register("worker", LEASE) for store in stores]
    owned = await asyncio.gather(*(store.own(lease, 3) for store, lease in zip(stores, leases, strict=True)))
    owners = {origin.name: origin.lease for part in owned for origin in part}
    assert Counter(owners.values()) == dict.fromkeys((lease.id for lease in leases), 3)
    sent = []

    async def work(store, lease):
        while found := (await store.claim(lease, 16)).claims:
            for claim in found:
                assert owners[claim.origin] == claim.lease == lease.id
            await asyncio.gather(*(store.begin(claim) for claim in found))
            await asyncio.gather(*(store.finish(claim, OK) for claim in found))
            sent.extend(claim.id for claim in found)

    await asyncio.gather(*(work(store, lease) for store, lease in zip(stores, leases, strict=True)))
    assert sorted(sent) == sorted(numbers)
    assert (await stores[0].counts()).completed == 120


async def test_a_worker_of_another_process_whose_lease_ran_out_completes_nothing(postgres_stage, stores):
    first, second = stores
    (number,) = await submit(first)
    (late,) = await claims(first, await worker(first, "late"))
    await first.begin(late)
    postgres_stage.advance(LEASE + NS)
    assert (await second.rescue(0)).leases == 1
    (claim,) = await claims(second, await worker(second, "other"))
    await second.begin(claim)
    with pytest.raises(LeaseLost):
        await first.finish(late, OK)
    assert (await second.finish(claim, OK)).state == "completed"
    assert (await known(first, number)).attempts == 2


async def test_events_of_several_writers_are_seen_in_one_order_without_a_gap(stores):
    """A reader that saw one has seen all before it, also those whose transaction began earlier."""
    seen = []

    async def read():
        while len(seen) < 300:
            part = await stores[0].events(len(seen))
            assert [each.seq for each in part] == list(range(len(seen) + 1, len(seen) + 1 + len(part)))
            seen.extend(part)

    async def write(store, first):
        for number in range(first, first + 50):
            await asyncio.gather(*(submit(store, new(number, lane=f"lane{each}")) for each in range(3)))

    await asyncio.gather(read(), *(write(store, 100 * place) for place, store in enumerate(stores)))
    assert len({each.delivery for each in seen}) == 300


async def test_processes_that_change_the_same_rows_in_any_order_do_not_block_each_other(stores):
    numbers = await submit(stores[0], *(new(each, lane=f"lane{each % 5}") for each in range(40)))
    for call in ("cancel", "replay", "hasten", "cancel"):
        await asyncio.gather(
            *(getattr(stores[0], call)(number) for number in numbers),
            *(getattr(stores[1], call)(number) for number in reversed(numbers)),
        )
    totals = await stores[0].counts()
    assert (totals.cancelled, totals.pending, totals.ready) == (40, 0, 0)


async def test_of_two_processes_with_one_key_one_creates(stores):
    for turn in range(10):
        request = new(turn, idempotency_key=f"key{turn}", lane=f"new lane {turn}")
        found = await asyncio.gather(*(store.submit([request]) for store in stores for _ in range(3)))
        assert Counter(each.outcome for (each,) in found) == {"created": 1, "replayed": 5}
        assert len({each.id for (each,) in found}) == 1


async def test_a_lane_that_another_process_deleted_is_made_anew(postgres_stage, stores):
    """What this process remembers of it holds no longer, also after a second time."""
    first, second = stores
    for turn in range(3):
        numbers = [*await submit(first, new(turn, lane="lane")), *await submit(second, new(turn, lane="lane"))]
        assert (await second.lane("lane")).counts.pending == 2
        for number in numbers:
            await first.cancel(number)
        await first.prune(Retention(cancelled=0))
        postgres_stage.advance(Retention().lanes + NS)
        await submit(first, new(lane="other", origin="https://other:443"))
        assert (await (first, second)[turn % 2].prune(Retention())).lanes == 1


async def test_processes_that_submit_and_prune_at_a_time_lose_nothing(stores):
    """Whoever deletes lanes has the store to itself."""
    first, second = stores
    lease = await second.register("worker", LEASE)
    at_once = Retention(completed=0, failed=0, cancelled=0, keys=0, events=0, minutes=0)
    lanes, over = 0, False

    async def prune():
        nonlocal lanes
        while not over:
            lanes += (await second.prune(at_once)).lanes

    async def deliver():
        nonlocal over
        for turn in range(15):
            found = await asyncio.gather(
                *(submit(first, new(each, lane=f"lane{each} {turn % 3}")) for each in range(3))
            )
            held = await claims(second, lease)
            assert sorted(claim.id for claim in held) == sorted(number for numbers in found for number in numbers), turn
            await asyncio.gather(*(second.cancel(claim.id) for claim in held))
        over = True

    await asyncio.gather(prune(), deliver())
    assert lanes > 3
    totals = await first.counts()
    assert (totals.pending, totals.ready, totals.held) == (0, 0, 0)


async def test_an_event_of_another_process_wakes_those_who_wait(stores):
    """Also when the connection that would have told of it is gone: then it is looked for."""
    first, second = stores
    for lost in (False, True):
        waiting = asyncio.ensure_future(second.newer(await second.last_event()))
        if lost and second._news._db is not None:
            second._news._db.terminate()
        await submit(first)
        await waiting


async def test_many_who_wait_share_a_commit(postgres_stage):
    store = await postgres_stage.open()
    await asyncio.gather(*(submit(store, new(each)) for each in range(500)))
    (row,) = await postgres_stage.sql("SELECT count(DISTINCT xmin::text) FROM deliveries")
    assert row[0] < 50


async def test_a_call_that_is_refused_leaves_the_others_of_its_commit_alone(postgres_stage):
    store = await postgres_stage.open()
    await submit(store, new(1, lane="lane"))
    found = await asyncio.gather(
        submit(store, new(2)),
        store.submit([new(3), new(4, lane="lane", origin="https://other:443")]),
        store.submit([new(5, body="text")]),
        store.submit([new(6, method="\0")]),
        submit(store, new(7)),
        return_exceptions=True,
    )
    assert [type(each) for each in found] == [list, OptionsError, StoreError, StoreError, list]
    assert [each.url[-1] for each in await everything(store)] == ["7", "2", "1"]


async def test_an_error_that_quotes_a_nul_can_be_stored(postgres_stage):
    store = await postgres_stage.open()
    (number,) = await submit(store)
    (claim,) = await claims(store, await worker(store))
    await store.begin(claim)
    await store.finish(claim, Ended(then="retry", error="it said \0", reason="\0"))
    assert (await known(store, number)).error == "it said \N{REPLACEMENT CHARACTER}"


async def test_a_connection_that_was_lost_while_nothing_was_asked_is_not_noticed(postgres_stage):
    store = await postgres_stage.open()
    await submit(store)
    for _ in range(3):
        await postgres_stage.sql(
            "SELECT pg_terminate_backend($1)", store._writer._hands[0].committer._db.get_server_pid()
        )
        await submit(store)
    assert len(await everything(store)) == 4


async def test_what_is_read_once_more_after_a_lost_connection_is_the_same(postgres_stage):
    """And no "there is none": whoever asked would take that for the truth."""
    store = await postgres_stage.open()
    (number,) = await submit(store)
    for read in (store.get, store.payload):
        pid = await store._pool.fetchval("SELECT pg_backend_pid()")
        # In another thread's loop, so that this one does not see the connection end before it reads.
        killed = partial(asyncio.run, postgres_stage.sql("SELECT pg_terminate_backend($1)", pid))
        with ThreadPoolExecutor(1) as other:
            other.submit(killed).result()
        assert await read(number) is not None


async def test_a_call_that_waits_for_another_transaction_holds_up_nobody_else(postgres_stage):
    store = await postgres_stage.open()
    (number,) = await submit(store)
    other = await asyncpg.connect(postgres_stage.dsn, server_settings={"search_path": postgres_stage.schema})
    try:
        await other.execute("BEGIN; SELECT FROM deliveries FOR UPDATE")
        cancelled = asyncio.ensure_future(store.cancel(number))
        waits = "SELECT FROM pg_locks WHERE NOT granted AND $1 = ANY(pg_blocking_pids(pid))"
        while not await postgres_stage.sql(waits, other.get_server_pid()):
            pass
        await submit(store)
        assert not cancelled.done()
    finally:
        await other.close()
    assert (await cancelled).state == "cancelled"


async def test_what_another_transaction_stood_in_the_way_of_is_done_again(postgres_stage):
    store = await postgres_stage.open()
    await failing(postgres_stage, "IF nextval('turns') < 3 THEN RAISE 'again' USING ERRCODE = '40001'; END IF")
    await submit(store)
    assert len(await everything(store)) == 1


@pytest.mark.parametrize(
    ("code", "reason"), [("53100", "full"), ("25006", "denied"), ("42501", "denied"), ("42P01", "schema")]
)
async def test_what_keeps_the_whole_store_from_writing_is_not_tried_with_each_call(postgres_stage, code, reason):
    """A full disk, a standby: 60 calls would cost more than 100 transactions."""
    store = await postgres_stage.open()
    await failing(postgres_stage, f"PERFORM nextval('turns'); RAISE 'no' USING ERRCODE = '{code}'")
    found = await asyncio.gather(*(submit(store) for _ in range(60)), return_exceptions=True)
    assert [each.reason for each in found] == [reason] * 60
    ((tries,),) = await postgres_stage.sql("SELECT last_value FROM turns")
    assert tries < 20


async def test_a_connection_that_is_lost_during_the_commit_leaves_a_doubt_and_says_so(postgres_stage):
    store = await postgres_stage.open()
    await failing(postgres_stage, "IF nextval('turns') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF")
    with pytest.raises(StoreError, match="whether this was stored is not known"):
        await submit(store)
    await submit(store)
    assert len(await everything(store)) == 1


async def failing(stage, what):
    """Have commits of new deliveries do something before they are through."""
    await stage.sql("CREATE SEQUENCE turns")
    body = f"SET search_path = {stage.schema} AS $$ BEGIN {what}; RETURN NULL; END $$"
    await stage.sql(f"CREATE FUNCTION failing() RETURNS trigger LANGUAGE plpgsql {body}")
    when = "AFTER INSERT ON deliveries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
    await stage.sql(f"CREATE CONSTRAINT TRIGGER failing {when} EXECUTE FUNCTION failing()")


async def test_a_reader_that_is_cancelled_harms_nobody(postgres_stage):
    store = await postgres_stage.open()
    await submit(store)
    for turns in range(30):
        task = asyncio.ensure_future(store.counts())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = await asyncio.gather(*(store.counts() for _ in range(20)))
    assert {each.pending for each in found} == {1}


async def test_a_doctor_learns_of_clock_and_oldest_transaction(postgres_stage):
    store = await postgres_stage.open()
    db = await asyncpg.connect(postgres_stage.dsn)
    async with db.transaction(isolation="repeatable_read"):
        await db.fetchval("SELECT 1")
        await submit(store)
        health = await store.health()
    await db.close()
    assert health.schema == NEWEST
    assert health.oldest_xmin >= 1
    assert health.longest_transaction > 0
    assert abs(health.skew) < 60 * NS
    assert 0 < health.connections <= health.most_connections


SOUND = Health(
    server="15.1", schema=3, skew=0, round_trip=1_000_000, oldest_xmin=0, longest_transaction=0, slot_xmin=0, dead=0, live=0,
    connections=5, most_connections=100, durable=True, cleaned=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"durable": False}, "fsync"),
        ({"cleaned": False}, "autovacuum is off"),
        ({"skew": -60 * NS}, "differ by 60.0 s"),
        ({"longest_transaction": 3600 * NS, "oldest_xmin": 77}, "open for 3600 s"),
        ({"slot_xmin": 10**9}, "replication slot"),
        ({"dead": 10**6, "live": 10}, "does not keep up"),
        ({"connections": 99}, "99 of 100"),
    ],
)
def test_a_doctor_warns_of_what_slows_a_store_down_or_loses_what_it_holds(changed, word):
    assert warnings(SOUND) == []
    (told,) = warnings(msgspec.structs.replace(SOUND, **changed))
    assert word in told


async def test_a_server_that_is_restarted_under_load_loses_nothing_that_it_acknowledged(own_server):
    """NP-029: it is told at once that there is no database, and all goes on when it is back."""
    dsn = own_server.dsn.partition("?")[0]
    await migrate(dsn)
    store = await PostgresStore.open(dsn)
    async with loaded(store) as load:
        for how in (signal.SIGINT, signal.SIGQUIT):
            await load.some_more()
            await asyncio.to_thread(own_server.stop, how)
            with pytest.raises(StoreError):
                await store.counts()
            await asyncio.to_thread(own_server.start)
    assert load.errors
    await accounted(store, load)
    await store.close()
