"""One SQLite file, one process: locks, faults, shared commits and kills."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest
from msgspec.structs import replace

from comity.errors import OptionsError, StoreError
from comity.policy.units import NS
from comity.store.bell import Bell
from comity.store.records import Answer, Query, Retention
from comity.store.sqlite import reading
from comity.store.sqlite.faults import fault
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.testing.conformance.stage import OK, everything, new, send, submit, worker
from tests.store.sqlite_stage import SqliteStage


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "store.sqlite"
    migrate(made)
    return made


async def test_a_second_store_on_one_file_is_refused_until_the_first_is_closed(path):
    store = SqliteStore(path)
    for use in (SqliteStore, migrate):
        with pytest.raises(StoreError, match="another process has this store open") as refused:
            use(path)
        assert refused.value.reason == "busy"
    done = run("SqliteStore(sys.argv[1])", path)
    assert "another process has this store open" in done.stderr
    await submit(store)
    await store.close()
    again = SqliteStore(path)
    assert len(await everything(again)) == 1
    await again.close()


async def test_leases_of_a_process_that_is_gone_have_run_out(path):
    """Nobody waits for them after a restart."""
    store = SqliteStore(path)
    await submit(store)
    await store.claim(await worker(store), 4)
    await store.close()
    store = SqliteStore(path)
    assert (await store.rescue(0)).leases == 1
    assert len((await store.claim(await worker(store), 4)).claims) == 1
    await store.close()


async def test_a_full_disk_refuses_what_is_new_and_loses_nothing(path):
    store = SqliteStore(path)
    first = await submit(store, new(1))
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count={pages + 20}")
    small, large = await asyncio.gather(
        submit(store, new(2)), submit(store, new(3, body=bytes(1 << 20))), return_exceptions=True
    )
    assert isinstance(large, StoreError)
    assert (large.reason, "make room" in str(large)) == ("full", True)
    store._db.execute("PRAGMA max_page_count=100000")
    later = await submit(store, new(4))
    assert [each.id for each in await everything(store)] == [*later, *small, *first]
    await store.close()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (sqlite3.SQLITE_BUSY, "busy"),
        (sqlite3.SQLITE_FULL, "full"),
        (sqlite3.SQLITE_CANTOPEN, "denied"),
        (sqlite3.SQLITE_READONLY, "denied"),
        (sqlite3.SQLITE_CORRUPT, "corrupt"),
        (sqlite3.SQLITE_IOERR, "failed"),
    ],
)
def test_each_of_sqlites_errors_has_a_reason(tmp_path, code, reason):
    error = sqlite3.OperationalError("it went wrong")
    error.sqlite_errorcode = code | 1 << 8  # an extended code
    told = fault(tmp_path, error)
    assert told.reason == reason
    assert "it went wrong" in str(told)


def test_a_file_that_is_no_database_is_refused(path):
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="no SQLite database") as refused:
        SqliteStore(path)
    assert refused.value.reason == "corrupt"


async def test_a_damaged_page_is_an_error_of_whoever_reads_it(path):
    store = SqliteStore(path)
    await submit(store, *(new(each) for each in range(200)))
    await store.close()
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged") as refused:
        SqliteStore(path)
    assert refused.value.reason == "corrupt"


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="No such file or directory") as refused:
        migrate(tmp_path / "nowhere" / "store.sqlite")
    assert refused.value.reason == "denied"


@pytest.mark.parametrize("ageing", [-1, 86_400 * NS + 1])
def test_an_ageing_that_does_not_fit_is_refused(path, ageing):
    with pytest.raises(OptionsError, match="ageing"):
        SqliteStore(path, ageing=ageing)


async def test_many_who_wait_share_a_commit(path):
    moments = []

    def clock():
        moments.append(None)
        return 1_800_000_000 * NS

    store = SqliteStore(path, clock=clock)
    await asyncio.gather(*(submit(store, new(each)) for each in range(500)))
    assert len(moments) < 100
    assert (await store.counts()).pending == 500
    await store.close()


async def test_a_call_that_is_refused_leaves_the_others_of_its_commit_alone(path):
    store = SqliteStore(path)
    await submit(store, new(1, lane="lane"))
    found = await asyncio.gather(
        submit(store, new(2)),
        store.submit([new(3, lane="fresh"), new(4, lane="lane", origin="https://other:443")]),
        submit(store, new(5)),
        store.submit([new(6, body="text")]),  # what cannot be bound fails inside SQLite
        return_exceptions=True,
    )
    assert isinstance(found[1], OptionsError)
    assert "it is a lane to" in str(found[1])
    assert isinstance(found[3], Exception)
    assert [each.url[-1] for each in await everything(store)] == ["5", "2", "1"]
    assert await store.lane("fresh") is None
    await store.close()


async def test_a_cancelled_submission_is_there_as_a_whole_or_not_at_all(path):
    store = SqliteStore(path)
    draw = random.Random(3)
    tasks = []
    for number in range(100):
        tasks.append(asyncio.ensure_future(submit(store, new(number), new(number))))
        if draw.random() < 0.5:
            await asyncio.sleep(0)
        if draw.random() < 0.5:
            draw.choice(tasks).cancel()
    told = [each for each in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(each, list)]
    found = [each.id for each in await everything(store)]
    assert {number for both in told for number in both} <= set(found)
    urls = [each.url for each in await everything(store)]
    assert all(urls.count(url) == 2 for url in urls)
    assert all([await store.payload(number) for number in found])
    await store.close()


def test_a_loop_that_is_closed_while_it_waits_harms_nobody(path):
    async def leave(store):
        left = [store.newer(1_000), *(submit(store, new(number)) for number in range(20))]
        waiting = asyncio.gather(*left)
        await asyncio.sleep(0)
        assert not waiting.done()

    async def go_on(store):
        await submit(store, new(99))
        assert (await store.deliveries(Query(), most=1)).deliveries[0].url.endswith("/99")
        await store.close()

    async def opened():
        return SqliteStore(path)

    store = asyncio.run(opened())
    asyncio.run(leave(store))
    asyncio.run(go_on(store))


async def test_closing_ends_what_was_asked_for_before(path):
    store = SqliteStore(path)
    tasks = [asyncio.ensure_future(submit(store, new(each))) for each in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*tasks)
    store = SqliteStore(path)
    assert len(await everything(store)) == 50
    await store.close()


async def test_space_is_used_again(tmp_path):
    """RT-01: round after round the file stays as large as it was."""
    stage = SqliteStage(tmp_path)
    store = await stage.open()
    sizes = []
    lease = await store.register("worker", 3600 * NS)
    for _ in range(4):
        await store.submit([new(each, lane=f"lane{each % 8}", body=bytes(500)) for each in range(300)])
        await store.own(lease, 10)
        while claimed := (await store.claim(lease, 256)).claims:
            for claim in claimed:
                await store.cancel(claim.id)
        stage.advance(10 * NS)
        while (await store.prune(Retention(cancelled=NS, events=NS))).more:
            pass
        assert await everything(store) == []
        sizes.append(store._db.execute("PRAGMA page_count").fetchone()[0])
    assert max(sizes) <= 1.2 * sizes[0]
    await store.close()


async def test_pruning_leaves_no_row_behind(tmp_path):
    """RT-04"""
    stage = SqliteStage(tmp_path)
    store = await stage.open()
    await submit(store, *(new(each, idempotency_key=f"key{each}") for each in range(5)))
    lease = await worker(store)
    for _ in range(5):
        await send(store, lease, replace(OK, answer=Answer(status=200)))
    stage.advance(10 * NS)
    await store.prune(Retention(completed=NS, keys=NS))
    for table in ("deliveries", "payloads", "answers", "attempts", "keys"):
        assert store._db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    await store.close()


SENDER = textwrap.dedent("""
    import asyncio, sys
    from comity.store.sqlite.store import SqliteStore
    from comity.testing.conformance.stage import AGAIN, OK, claims, new, submit, worker

    async def main(store, first):
        await store.rescue(0)
        lease = await worker(store)

        async def submitting(number):
            while True:
                for each in await submit(store, new(number), new(number)):
                    print("submitted", each, flush=True)

        async def sending(claim):
            number = await store.begin(claim)
            step = await store.finish(claim, AGAIN if number == 1 else OK)
            if step.state == "completed":
                print("completed", claim.id, flush=True)
            else:
                await store.hasten(claim.id)

        async def working():
            while True:
                await asyncio.gather(*map(sending, await claims(store, lease, 64)))

        await asyncio.gather(working(), *(submitting(number) for number in range(8)))

    async def opened():
        await main(SqliteStore(sys.argv[1]), 0)

    asyncio.run(opened())
""")


def run(code, path):
    preamble = "import sys; from comity.store.sqlite.store import SqliteStore; "
    command = [sys.executable, "-c", preamble + code, path]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def killed(path, times):
    """Kill as many processes as they work; return what they told of: word -> ids."""
    draw = random.Random(5)
    told = {"submitted": set(), "completed": set()}
    for _ in range(times):
        with subprocess.Popen([sys.executable, "-c", SENDER, path], stdout=subprocess.PIPE, text=True) as process:
            for _ in range(draw.randint(20, 300)):
                word, _, number = process.stdout.readline().strip().partition(" ")
                told[word].add(number)
            process.kill()
            *rest, _ = process.stdout.read().split("\n")
            for line in rest:
                word, _, number = line.partition(" ")
                told[word].add(number)
    return told


async def test_a_process_that_is_killed_again_and_again_loses_nothing_that_it_told_of(path):
    """NP-029, WC-05: as many rows as attempts, no delivery without its payload, and a completed one stays so."""
    told = killed(path, 5)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store = SqliteStore(path)
    await store.rescue(0)
    found = {each.id: each for each in await everything(store, most=1000)}
    assert told["submitted"] <= found.keys()
    assert told["completed"] <= {number for number, each in found.items() if each.state == "completed"}
    for number, each in found.items():
        rows = await store.attempts(number)
        assert [row.number for row in rows] == list(range(1, each.attempts + 1))
        assert sum(row.decision == "completed" for row in rows) == (each.state == "completed")
        assert await store.payload(number) is not None
    totals = await store.counts()
    assert totals.completed == sum(each.state == "completed" for each in found.values())
    alive = totals.pending + totals.retrying
    assert (totals.held, alive + totals.completed) == (0, len(found))
    assert store._db.execute("SELECT sum(live) FROM origins").fetchone() == (alive,)
    lease = await worker(store)
    await send(store, lease)
    await store.close()


async def test_a_file_that_another_program_locks_is_busy_for_all_who_wait(path):
    store = SqliteStore(path)
    store._db.execute("PRAGMA busy_timeout=1")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = await asyncio.gather(*(submit(store, new(each)) for each in range(9)), return_exceptions=True)
        assert [each.reason for each in found] == ["busy"] * 9
        other.execute("ROLLBACK")
    await submit(store)
    assert (await store.counts()).pending == 1
    await store.close()


async def test_a_commit_that_fails_is_told_to_all_and_stores_nothing(path):
    store = SqliteStore(path)

    def refuse(action, what, *_):
        fails = (action, what) == (sqlite3.SQLITE_TRANSACTION, "COMMIT")
        return sqlite3.SQLITE_DENY if fails else sqlite3.SQLITE_OK

    store._db.set_authorizer(refuse)
    found = await asyncio.gather(*(submit(store, new(each)) for each in range(9)), return_exceptions=True)
    assert all(isinstance(each, StoreError) for each in found)
    store._db.set_authorizer(None)
    await submit(store, new(10))
    assert [each.url[-2:] for each in await everything(store)] == ["10"]
    await store.close()


async def test_claims_of_a_caller_that_is_cancelled_as_they_arrive_are_given_back(path):
    store = SqliteStore(path)
    await submit(store)
    lease = await worker(store)
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(store.claim(lease, 4))

    def cancel_on_arrival():
        if task._fut_waiter is not None and task._fut_waiter.done():
            task.cancel()
        else:
            loop.call_soon(cancel_on_arrival)

    cancel_on_arrival()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    await submit(store, new(2))
    assert (await store.counts()).held == 0
    await store.close()


def test_claims_for_a_loop_that_was_closed_are_given_back(path):
    async def opened():
        store = SqliteStore(path)
        await submit(store)
        return store, await worker(store)

    async def asked(store, lease):
        task = asyncio.ensure_future(store.claim(lease, 4))
        await asyncio.sleep(0)
        return task

    async def look(store):
        await submit(store)
        await submit(store)
        held = (await store.counts()).held
        await store.close()
        return held

    loop = asyncio.new_event_loop()
    store, lease = loop.run_until_complete(opened())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # the writer waits for it
        task = loop.run_until_complete(asked(store, lease))
        task._log_destroy_pending = False
        loop.close()
    assert asyncio.run(look(store)) == 0


async def test_who_waits_is_woken_once_however_often_the_bell_rings():
    bell = Bell(0)
    waiting = asyncio.ensure_future(bell.newer(0))
    await asyncio.sleep(0)
    bell.ring(1)
    bell.ring(2)
    await waiting


STATES = ("pending", "retrying", "completed", "failed", "cancelled", None)


@pytest.mark.parametrize("lane", [None, "https://api.example:443"])
@pytest.mark.parametrize("since", [None, 5])
@pytest.mark.parametrize("state", STATES)
def test_a_page_is_found_without_sorting_or_searching_all(path, state, lane, since):
    plan = plan_of(path, lambda db: reading.matching(db, Query(state=state, lane=lane, since=since), None, 10))
    found = [each for each in plan if " d " in f"{each} "]
    if lane:
        assert len(found) == (1 if state else 5)
        assert all("INDEX deliveries_lane (lane=? AND state=?" in each for each in found)
    elif state:
        (only,) = found
        assert "INDEX deliveries_state (state=?" in only
    else:
        assert "SEARCH d USING INTEGER PRIMARY KEY" in found[0] if since else found == ["SCAN d"]
    assert not any("TEMP B-TREE" in each for each in plan)


def test_a_page_of_one_reason_is_found_by_it(path):
    plan = plan_of(path, lambda db: reading.matching(db, Query(reason="poison"), None, 10))
    assert any("INDEX deliveries_reason (reason=?" in each for each in plan)


def test_what_counts_against_a_limit_is_found_by_its_time(path):
    plan = plan_of(path, lambda db: reading.starts(db, "https://api.example:443", 5, 10))
    assert any("attempts_ended (origin=? AND ended_at" in each for each in plan)
    assert not any(each.startswith("SCAN a") for each in plan)


def plan_of(path, ask):
    """Return the steps in which SQLite answers the last question that `ask` puts."""
    asked = []
    with closing(sqlite3.connect(path)) as db:
        db.set_trace_callback(asked.append)
        ask(db)
        db.set_trace_callback(None)
        return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {asked[-1]}")]


@pytest.mark.skipif(sys.platform == "win32", reason="nobody can delete there what another has open")
@pytest.mark.parametrize("suffix", ["", "-wal"])
async def test_a_file_that_was_deleted_takes_nothing_in_any_more_until_it_is_back(path, suffix):
    """What is written to it then is gone with the process, so nothing is acknowledged."""
    store = SqliteStore(path)
    before = await submit(store)
    file = path.with_name(path.name + suffix)
    away = file.rename(path.with_name("away"))
    for use in (submit(store), everything(store)):
        with pytest.raises(StoreError, match="is gone, or is another one") as refused:
            await use
        assert refused.value.reason == "gone"
    file.touch()  # another one under its name
    with pytest.raises(StoreError, match="is gone, or is another one"):
        await submit(store)
    away.rename(file)
    after = await submit(store)
    assert [each.id for each in await everything(store)] == [*after, *before]
    await store.close()
