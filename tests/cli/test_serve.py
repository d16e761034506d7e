"""`comity serve` and the commands that ask it, as processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from base64 import b64encode
from contextlib import closing, contextmanager

import pytest

from comity.service import AsyncServiceClient
from comity.store.records import NewDelivery
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.testing.upstream import Upstream
from tests.command import comity, launched, started


@pytest.fixture
def upstream():
    with Upstream(capture=True) as server:
        yield server


@contextmanager
def served(directory, *arguments, **environ):
    """Run the service in a directory; give the environment that leads to it."""
    own = ("--port", "0", "--allow", "127.0.0.0/8", *arguments)
    with started("serve", *own, cwd=directory, env=os.environ | environ) as process:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, os.environ | {"COMITY_URL": json.loads(line)["url"]}


def lines(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_is_submitted_is_delivered_and_survives_a_restart(tmp_path, upstream):
    """NP-001, NP-024, NP-026, NP-028, NP-030: the worker starts with the server and stops with it."""
    flaky = f"{upstream.url}/flaky/a?fail=1&code=500"
    with served(tmp_path) as (process, env):
        fields = {"url": flaky, "method": "POST", "body": "hello", "backoffMs": 100}
        (tmp_path / "in.jsonl").write_text(json.dumps(fields) + "\n")
        (made,) = lines(comity("submit", "--file", tmp_path / "in.jsonl", env=env))
        (done,) = lines(comity("submit", f"{upstream.url}/echo", "-d", "x", "-H", "X-A: 1", "--wait", env=env))
        assert (done["status"], json.loads(done["result"]["body"])["body"]["text"]) == ("completed", "x")
        number = made["accepted"]["id"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with served(tmp_path) as (process, env):
        (told,) = lines(comity("get", f"{env['COMITY_URL']}/requests/{number}", "-H", "Prefer: wait=60", env=env))
        assert told["status"] == "completed"
        assert [each["statusCode"] for each in told["attempts"]] == [500, 200]
        assert told["attemptCount"] == 2
        assert {each["id"] for each in lines(comity("ls", "--status", "completed", env=env))} == {number, done["id"]}
        assert lines(comity("show", number, env=env)) == [told]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_client_error_is_not_retried(tmp_path, upstream):
    """NP-025, NP-016: one attempt, and the error is seen."""
    with served(tmp_path) as (_, env):
        done = comity("submit", f"{upstream.url}/status/404", "--wait", env=env)
        told = json.loads(done.stdout)
        assert (done.returncode, told["status"], told["lastError"], told["attemptCount"]) == (
            1,
            "failed",
            "HTTP 404",
            1,
        )


def test_deliveries_and_lanes_are_operated_on_from_a_shell(tmp_path):
    with served(tmp_path) as (_, env):
        (made,) = lines(comity("submit", "http://127.0.0.1:9/", "--delay", "1h", env=env))
        number = made["id"]
        assert lines(comity("cancel", number, env=env))[0]["status"] == "cancelled"
        assert lines(comity("lanes", "http://127.0.0.1:9", "--pause", "--rate", "5/s", env=env))[0]["paused"] is True
        assert lines(comity("lanes", env=env))[0]["limits"] == {"rate": ["5/s"]}
        assert lines(comity("lanes", "http://127.0.0.1:9", "--ordered", env=env))[0]["ordered"] is True
        assert lines(comity("ls", "--since", "1h", "--reason", "attempts", env=env)) == []
        comity("submit", "http://127.0.0.1:9/", "--delay", "1h", env=env)
        few = comity("ls", "-n", "1", env=env)
        assert (len(lines(few)), few.stderr) == (1, "there are more than these 1: -n says how many to show\n")
        assert lines(comity("replay", "--status", "cancelled", "--until", "1h", env=env)) == [{"count": 0}]
        assert lines(comity("replay", "--status", "cancelled", env=env)) == [{"count": 1}]
        assert lines(comity("retry", number, env=env))[0]["status"] == "pending"
        with started("tail", "--after", "0", env=env) as tail:
            assert json.loads(tail.stdout.readline())["kind"] == "pending"
        refused = comity("cancel", "none", env=env)
        assert (refused.returncode, refused.stderr) == (1, "comity cancel: 404: there is no such delivery\n")
        assert comity("replay", env=env).returncode == 2
        assert comity("submit", env=env).returncode == 2


def test_a_file_and_all_that_can_be_said_of_a_submission_are_handed_in_from_a_shell(tmp_path, upstream):
    """From standard input too, and until all have ended."""
    with served(tmp_path, COMITY_CALLBACK_SECRETS="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") as (_, env):
        text = "".join(f'{{"url": "{upstream.url}{path}", "method": "GET"}}\n' for path in ("/ok/1", "/status/404"))
        done = comity("submit", "--file", "-", "--wait", env=env, input=text)
        ends = [json.loads(line) for line in done.stdout.splitlines()]
        assert (done.returncode, [(each["line"], each["status"]) for each in ends]) == (
            1,
            [(1, "completed"), (2, "failed")],
        )
        options = {
            "--priority": "2", "--max-retries": "3", "--run-at": "2100-01-01T00:00:00Z", "--deadline": "2100-01-02T00:00:00Z",
            "--lane": "mine", "--callback-url": f"{upstream.url}/ok/2",
        }  # fmt: skip
        words = [word for pair in options.items() for word in pair]
        (made,) = lines(comity("submit", f"{upstream.url}/ok/3", "--ordered", *words, env=env))
        (told,) = lines(comity("show", made["id"], env=env))
        assert (told["priority"], told["maxRetries"], told["lane"], told["dueAt"][:10], told["deadline"][:10]) == (
            2, 3, "mine", "2100-01-01", "2100-01-02",
        )  # fmt: skip
        refused = comity("submit", "--file", "-", "--lane", "mine", env=env, input=text)
        assert (refused.returncode, "no --lane beside it" in refused.stderr) == (2, True)


def test_schedules_are_operated_on_from_a_shell(tmp_path):
    with served(tmp_path) as (_, env):
        options = ("--cron", "30 6 * * mon-fri", "--zone", "Europe/Berlin", "--overlap", "skip")
        made, other = (lines(comity("submit", "http://127.0.0.1:9/", *options, env=env))[0] for _ in "ab")
        listed = lines(comity("schedules", env=env))
        assert [each["id"] for each in listed] == [made["schedule"], other["schedule"]]
        assert [listed[0][name] for name in ("cron", "zone", "overlap")] == list(options[1::2])
        assert lines(comity("schedules", made["schedule"], env=env)) == listed[:1]
        assert lines(comity("schedules", made["schedule"], "--pause", env=env))[0]["nextAt"] is None
        assert lines(comity("schedules", made["schedule"], "--resume", env=env))[0]["nextAt"] == listed[0]["nextAt"]
        assert [each["status"] for each in lines(comity("ls", "--schedule", made["schedule"], env=env))] == [
            "pending",
            "cancelled",
        ]
        assert lines(comity("schedules", other["schedule"], "--remove", env=env)) == []
        assert len(lines(comity("schedules", env=env))) == 1
        gone = comity("schedules", other["schedule"], env=env)
        assert (gone.returncode, gone.stderr) == (1, "comity schedules: 404: there is no such schedule\n")
        assert comity("schedules", "--pause", env=env).returncode == 2
        assert comity("schedules", made["schedule"], "--pause", "--remove", env=env).returncode == 2
        assert "cron" in comity("submit", "http://127.0.0.1:9/", "--cron", "daily", env=env).stderr


def test_a_run_that_comes_due_is_delivered_and_the_next_one_waits(tmp_path, upstream):
    """Also after hours in which nobody was there: they are one run at once."""
    with served(tmp_path) as (process, env):
        (made,) = lines(comity("submit", f"{upstream.url}/echo", "-d", "x", "--cron", "0 0 1 * *", env=env))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with closing(sqlite3.connect(tmp_path / "comity.db")) as db, db:
        past = time.time_ns() - 90 * 86_400 * 10**9
        db.execute("UPDATE schedules SET next_at = ?1, due_at = ?1", (past,))
        db.execute("UPDATE deliveries SET due_at = ?", (past,))
    with served(tmp_path) as (_, env):
        (done,) = lines(comity("get", f"{env['COMITY_URL']}/requests/{made['id']}", "-H", "Prefer: wait=60", env=env))
        assert (done["status"], done["schedule"]) == ("completed", made["schedule"])
        with started("tail", "--after", "0", env=env) as tail:
            while json.loads(tail.stdout.readline())["delivery"] == made["id"]:  # until the next one is there
                pass
        waiting, _ = lines(comity("ls", "--schedule", made["schedule"], env=env))
        (schedule,) = lines(comity("schedules", env=env))
        assert (waiting["status"], waiting["dueAt"], waiting["id"]) == (
            "pending",
            schedule["nextAt"],
            schedule["latest"],
        )
        assert waiting["dueAt"][8:] == "01T00:00:00.000Z"
    assert len(upstream.arrivals("/echo")) == 1


def test_the_guard_keeps_deliveries_from_what_is_not_allowed(tmp_path):
    with served(tmp_path) as (_, env):
        refused = comity("submit", "http://10.0.0.1/", env=env)
        assert (refused.returncode, "private use" in refused.stderr) == (1, True)


def test_tokens_let_in_those_who_have_one(tmp_path):
    (tmp_path / "tokens").write_text("me admin 0123456789abcdef\n")
    with served(tmp_path, "--token-file", "tokens") as (_, env):
        assert comity("ls", env=env).returncode == 1
        assert lines(comity("ls", env=env | {"COMITY_TOKEN": "0123456789abcdef"})) == []


def test_each_request_is_a_line_of_json_when_asked_for(tmp_path):
    with served(tmp_path, "--log", "json") as (process, env):
        assert comity("show", "hunter2", env=env).returncode == 1
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    told = [json.loads(line) for line in errors.splitlines()]
    assert told[0]["message"] == "made the store comity.db"
    assert [(each["method"], each["path"], each["status"]) for each in told if "path" in each] == [
        ("GET", "/requests/{id}", 404)
    ]
    assert "hunter2" not in errors


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--host", "0.0.0.0"), 2, "--token-file"),
        (("--port", "x"), 2, "--port='x'"),
        (("--store", "mysql://x"), 2, "sqlite:///FILE"),
        (("--store", "sqlite:///none/x.db"), 1, "none/x.db"),
        (("--allow", "a b"), 2, "a b"),
        (("--rate", "fast"), 2, "rate='fast'"),
        (("--config", "none.toml"), 2, "none.toml"),
        (("--token-file", "none"), 2, "none"),
        (("--host", "198.51.100.1", "--token-file", "tokens"), 1, "cannot listen"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(tmp_path, arguments, code, said):
    (tmp_path / "tokens").write_text("me admin 0123456789abcdef\n")
    done = comity("serve", *arguments, cwd=tmp_path)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (code, True, False)


def test_an_older_store_waits_for_its_migration(tmp_path):
    """NP-034: a schema changes only by explicit migrations."""
    migrate(tmp_path / "comity.db", to=1)
    done = comity("serve", "--port", "0", cwd=tmp_path)
    assert (done.returncode, "migrate" in done.stderr) == (1, True)
    assert comity("migrate", cwd=tmp_path).stdout.startswith("applied 0002")
    assert comity("migrate", cwd=tmp_path).stdout == "up to date\n"


def test_a_worker_alone_works_until_it_is_stopped(tmp_path):
    with started("worker", cwd=tmp_path) as process:
        assert "made the store" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_second_signal_cuts_the_end_short(tmp_path, upstream, command):
    """WC-05: what was being sent has an end in the store, and is ready for whoever comes next."""
    migrate(tmp_path / "comity.db")
    delivery = asyncio.run(handed_in(tmp_path / "comity.db", f"{upstream.url}/hang"))
    arguments = ("--allow", "127.0.0.0/8", "--drain", "10m", *(("--port", "0") if command == "serve" else ()))
    with launched(command, *arguments, cwd=tmp_path) as process:
        upstream.wait_until(lambda up: len(up.log) == 1, 60)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)  # another one: the same twice may come as one
        assert process.wait(60) in {130, 143}
    found, (attempt,) = asyncio.run(seen(tmp_path / "comity.db", delivery))
    assert (found.state, found.sending, attempt.sent) == ("retrying", False, "maybe")
    assert attempt.ended_at is not None


async def handed_in(path, url):
    store = SqliteStore(path)
    new = NewDelivery(
        origin=url.rpartition("/")[0], method="POST", url=url, headers=b"{}", options=b"{}", max_attempts=6
    )
    (made,) = await store.submit([new])
    await store.close()
    return made.id


async def seen(path, delivery):
    store = SqliteStore(path)
    found = await store.get(delivery), await store.attempts(delivery)
    await store.close()
    return found


def test_the_doctor_looks_where_a_store_that_is_not_there_would_be_made(tmp_path):
    ill = comity("doctor", "--store", "sqlite:///nowhere/x.db", cwd=tmp_path)
    assert ill.returncode == 1
    assert "error    store: nowhere/x.db: there is no directory nowhere; make it first" in ill.stdout


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_the_doctor_finds_a_directory_that_may_not_be_written(tmp_path):
    (tmp_path / "shut").mkdir(mode=0o500)
    ill = comity("doctor", "--store", "sqlite:///shut/x.db", cwd=tmp_path)
    assert (ill.returncode, "nothing can be made in shut" in ill.stdout) == (1, True)


def test_the_doctor_says_what_keeps_the_service_from_running(tmp_path):
    well = comity("doctor", cwd=tmp_path)
    assert (well.returncode, "error" in well.stdout) == (0, False)
    assert "warning  encryption: headers that hold secrets are stored in the clear" in well.stdout
    (tmp_path / "comity.db").write_bytes(b"no database at all, but long enough to be looked at" * 20)
    (tmp_path / "tokens").write_text("me admin 0123456789abcdef\n")
    for name in ("comity.db", "tokens"):
        (tmp_path / name).chmod(0o644)
    secrets = {"COMITY_CALLBACK_SECRETS": "hunter2"}
    ill = comity("doctor", "--token-file", "tokens", cwd=tmp_path, env=os.environ | secrets)
    levels = {line.split()[1].rstrip(":"): line.split()[0] for line in ill.stdout.splitlines()}
    assert (ill.returncode, levels["store"], levels["callbacks"], levels["everybody"]) == (
        1,
        "error",
        "error",
        "warning",
    )
    for name in ("comity.db", "tokens"):
        assert f"warning  everybody on this machine may read {name}" in ill.stdout
    assert "hunter2" not in ill.stdout


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("serve", "[::1/x"),
        ("worker", "127.0.0.1:port/x"),
        ("migrate", "127.0.0.1:99999/x"),
        ("doctor", "127.0.0.1/x?sslmode=always"),
    ],
)
def test_a_store_that_no_driver_understands_is_refused_with_the_reason(tmp_path, command, place):
    done = comity(command, "--store", f"postgresql://me:hunter1@{place}", cwd=tmp_path)
    told = done.stdout + done.stderr
    assert (done.returncode, "Traceback" in told, "hunter1" in told) == (1 if command == "doctor" else 2, False, False)
    assert f"--store='postgresql://***@{place}' cannot be used" in told


@pytest.mark.parametrize(
    ("command", "name", "code"),
    [
        ("serve", "starlette", 2),
        ("worker", "asyncpg", 2),
        ("migrate", "asyncpg", 2),
        ("doctor", "starlette", 1),
        ("doctor", "asyncpg", 1),
    ],
)
def test_a_package_that_is_not_there_is_told_with_what_to_install(tmp_path, command, name, code):
    """The doctor goes on with all that can be looked at without it."""
    store = "postgresql://me@127.0.0.1:1/x" if name == "asyncpg" else "sqlite:///x.db"
    run = f"import sys; sys.modules[{name!r}] = None; from comity.cli import main; main()"
    arguments = [sys.executable, "-c", run, command, "--store", store]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, check=False)
    told = done.stdout + done.stderr
    extra = "postgres" if name == "asyncpg" else "serve"
    assert (done.returncode, "Traceback" in told) == (code, False)
    assert f"{name} is not installed: pip install 'comity[{extra}]'" in told
    assert command != "doctor" or "encryption:" in told


def test_the_doctor_finds_nothing_wrong_beside_a_service_that_runs(tmp_path):
    with served(tmp_path):
        done = comity("doctor", cwd=tmp_path)
        assert (done.returncode, "ok       store: comity.db is in use by a service" in done.stdout) == (0, True)


def test_a_configuration_has_policies_and_limits_of_hosts(tmp_path, upstream):
    """What a submission says itself wins over its policy, and what a host's table says over the rest."""
    toml = """
        rate = "1/1h"
        [hosts."127.0.0.1"]
        rate = "50/5s"
        [policies.gentle]
        max_retries = 2
        strict_4xx = true
    """
    (tmp_path / "c.toml").write_text(toml)
    with served(tmp_path, "--config", "c.toml") as (_, env):
        for number in range(3):
            told = json.loads(
                comity("submit", f"{upstream.url}/status/408?{number}", "--policy", "gentle", "--wait", env=env).stdout
            )
            assert (told["policy"], told["maxRetries"], told["attemptCount"], told["status"]) == (
                "gentle",
                2,
                1,
                "failed",
            )
        refused = comity("submit", f"{upstream.url}/ok/1", "--policy", "gentel", env=env)
        assert (refused.returncode, "422" in refused.stderr, "did you mean gentle?" in refused.stderr) == (
            1,
            True,
            True,
        )
    checked = comity("doctor", cwd=tmp_path, env=os.environ | {"COMITY_CONFIG": "c.toml"})
    assert (checked.returncode, "policies: gentle" in checked.stdout, "hosts: 1 with" in checked.stdout) == (
        0,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('[hosts."a.example"]\nrate = "fast"', "hosts.\"a.example\".rate (in bad.toml)='fast'"),
        ('[hosts."A.example"]\n[hosts."a.example"]', "another key names the same host"),
        ("[policies.gentle]\nmax_retries = 0", 'policies."gentle".max_retries (in bad.toml)=0'),
    ],
)
def test_a_mistake_in_the_configuration_is_refused_at_the_start(tmp_path, toml, said):
    (tmp_path / "bad.toml").write_text(toml)
    done = comity("serve", "--config", "bad.toml", cwd=tmp_path)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    checked = comity("doctor", "--config", "bad.toml", cwd=tmp_path)
    assert (checked.returncode, said in checked.stdout, "ok       guard:" in checked.stdout) == (1, True, True)


def test_secrets_are_stored_under_a_key_and_the_doctor_knows_which_is_missed(tmp_path, upstream):
    """What the service can be told of keys; a wrong one loses nothing."""
    old, new = (os.urandom(32).hex(), b64encode(os.urandom(32)).decode())
    with served(tmp_path, COMITY_ENCRYPTION_KEYS=old) as (process, env):
        sent = ("-H", "Authorization: Bearer hunter2")
        (done,) = lines(comity("submit", f"{upstream.url}/ok/1", *sent, "--wait", env=env))
        lines(comity("submit", f"{upstream.url}/ok/2", *sent, "--cron", "0 0 29 2 *", env=env))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert done["status"] == "completed"
    assert dict(upstream.arrivals("/ok/1")[0].headers)["Authorization"] == "Bearer hunter2"
    assert not any(b"hunter2" in each.read_bytes() for each in tmp_path.glob("comity.db*"))

    def doctor(**environ):
        done = comity("doctor", cwd=tmp_path, env=os.environ | environ)
        assert old not in done.stdout
        return done.returncode, [line for line in done.stdout.splitlines() if " encryption: " in line]

    code, (how, missed) = doctor(COMITY_ENCRYPTION_KEYS=new)
    assert (code, how.split()[0], missed.split()[0]) == (1, "ok", "error")
    assert "at least 2 deliveries or schedules need it" in missed  # a schedule and its first run
    assert doctor()[0] == 1
    code, (how,) = doctor(COMITY_ENCRYPTION_KEYS=f"{new},{old}")
    assert (code, "opens what is older" in how) == (0, True)
    bad = comity("doctor", cwd=tmp_path, env=os.environ | {"COMITY_ENCRYPTION_KEYS": "hunter2"})
    assert (bad.returncode, "error    settings: COMITY_ENCRYPTION_KEYS" in bad.stdout) == (1, True)
    assert ("openssl rand" in bad.stdout, "hunter2" in bad.stdout + bad.stderr) == (True, False)


async def test_an_api_and_workers_share_a_postgres_database(tmp_path, upstream, database):
    """NP-030, NP-034, NP-038: a new database waits for its migration; then any number of processes work on it."""
    store = {"COMITY_STORE": database, "COMITY_ALLOW": "127.0.0.0/8"}
    early = comity("serve", "--port", "0", cwd=tmp_path, env=os.environ | store)
    assert (early.returncode, "migrate" in early.stderr) == (1, True)
    assert comity("migrate", cwd=tmp_path, env=os.environ | store).stdout.startswith("applied 0001")
    doctor = comity("doctor", cwd=tmp_path, env=os.environ | store)
    assert (doctor.returncode, "SQLite" in doctor.stdout) == (0, False)
    with started("worker", cwd=tmp_path, env=os.environ | store) as worker, served(tmp_path, **store) as (api, env):
        urls = [f"{upstream.url}/flaky/{n}?fail=1&code=503" for n in range(20)]
        fields = [{"url": url, "method": "POST", "backoffMs": 100} for url in urls]
        (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in fields))
        made = lines(comity("submit", "--file", tmp_path / "in.jsonl", env=env))
        async with AsyncServiceClient(env["COMITY_URL"]) as service:
            ends = [await service.get(each["accepted"]["id"], wait=60) for each in made]
        assert [(each["status"], each["attemptCount"]) for each in ends] == [("completed", 2)] * 20
        assert len(upstream.arrivals("/flaky")) == 40
        for process in (worker, api):
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
