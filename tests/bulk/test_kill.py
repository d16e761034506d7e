"""A run that is killed, stopped or cut off: what stands on the disk is true, and the next run goes on from there."""

from __future__ import annotations

import json
import os
import random
import resource
import shlex
import signal
import subprocess
from collections import Counter

import pytest

from comity.testing.upstream import Upstream
from tests.bulk.harness import by_line, results, sends, write
from tests.command import comity, command, launched, started

CONCURRENCY = 10


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def arguments(source, out, *more):
    return ("run", source, "-o", out, "--concurrency", CONCURRENCY, "--progress", "off", *more)


def lines_of(out):
    return out.read_bytes().count(b"\n") if out.exists() else 0


def test_a_run_killed_at_random_moments_gives_each_line_one_result(tmp_path, upstream, out):
    """BK-01: ids sent twice are at most those in flight at each kill."""
    source = write(tmp_path / "in", *[{"url": f"{upstream.url}/ok/{n}?ms=5&jitter=10"} for n in range(500)])
    draw = random.Random(1)
    kills = 0
    while lines_of(out) < 400:
        with started(*arguments(source, out)) as process:
            more = draw.randint(30, 90)
            before = upstream.stats().total.count
            upstream.wait_until(lambda up, target=before + more: up.stats().total.count >= target, 30)
            process.kill()
            process.communicate()
            kills += 1
    assert comity(*arguments(source, out)).returncode == 0
    assert sorted(by_line(out)) == list(range(1, 501))
    assert kills >= 3
    again = Counter({target: count - 1 for target, count in sends(upstream).items() if count > 1})
    assert again.total() <= kills * CONCURRENCY


def test_requests_that_must_not_be_repeated_are_unknown_after_a_kill_and_never_sent_twice(tmp_path, upstream, out):
    """ID-01, BK-01"""
    rows = [{"url": f"{upstream.url}/ok/{n}?ms=20", "method": "POST"} for n in range(200)]
    source = write(tmp_path / "in", *rows)
    for target in (50, 120):
        with started(*arguments(source, out)) as process:
            upstream.wait_until(lambda up, target=target: up.stats().total.count >= target, 30)
            process.kill()
            process.communicate()
    assert comity(*arguments(source, out)).returncode == 1
    found = by_line(out)
    unknown = {line for line, row in found.items() if not row["ok"]}
    assert sorted(found) == list(range(1, 201))
    assert 1 <= len(unknown) <= 2 * CONCURRENCY
    assert {found[line]["error"]["type"] for line in unknown} == {"unknown"}
    assert max(sends(upstream).values()) == 1
    assert comity(*arguments(source, out, "--resend-unknown")).returncode == 0
    assert all(row["ok"] for row in by_line(out).values())


def test_an_ordered_run_that_is_killed_goes_on_in_order(tmp_path, upstream, out):
    source = write(tmp_path / "in", *[f"{upstream.url}/ok/{n}?jitter=40" for n in range(300)])
    for target in (80, 190):
        with started(*arguments(source, out, "--ordered")) as process:
            upstream.wait_until(lambda up, target=target: up.stats().total.count >= target, 30)
            process.kill()
            process.communicate()
    assert comity(*arguments(source, out, "--ordered")).returncode == 0
    assert [row["line"] for row in results(out)] == list(range(1, 301))
    again = sum(count - 1 for count in sends(upstream).values())
    assert again <= 2 * CONCURRENCY


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_told_run_finishes_what_is_on_the_wire_and_starts_nothing(tmp_path, upstream, out, number):
    source = write(tmp_path / "in", *[f"{upstream.url}/delay/300?n={n}" for n in range(200)])
    with launched(*arguments(source, out)) as process:
        upstream.wait_until(lambda up: up.stats().total.in_flight == CONCURRENCY, 30)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "the same command goes on from here" in errors
        assert len(results(out)) == len(upstream.log)
        assert all(row["ok"] for row in results(out))
        assert len(upstream.log) <= 2 * CONCURRENCY


def test_a_row_that_is_to_be_tried_again_after_the_stop_is_left_undone(tmp_path, upstream, out):
    source = write(tmp_path / "in", f"{upstream.url}/flaky/1?fail=1&code=503&ms=500")
    with started(*arguments(source, out)) as process:
        upstream.wait_until(lambda up: up.stats().total.in_flight == 1, 30)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert (len(upstream.log), results(out)) == (1, [])
    assert comity(*arguments(source, out)).returncode == 0
    assert by_line(out)[1]["ok"]


def test_a_second_signal_stops_at_once(tmp_path, upstream, out):
    source = write(tmp_path / "in", *[{"url": f"{upstream.url}/hang", "method": "POST"} for _ in range(5)])
    with started(*arguments(source, out)) as process:
        upstream.wait_until(lambda up: up.stats().total.in_flight == 5, 30)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith("stopping")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "stopped at once: 5 were in flight" in errors
        assert "the same command goes on" in errors
        upstream.clear()
        dry = comity(*arguments(source, out, "--dry-run"))
        assert "5 of unknown outcome are left alone (--resend-unknown)" in dry.stdout
        again = comity(*arguments(source, out))
        assert again.returncode == 1
        assert "of unknown outcome 5: they may have been carried out" in again.stderr
        assert {row["error"]["type"] for row in results(out)} == {"unknown"}
        assert upstream.log == []


def test_a_run_that_waits_for_a_quota_can_be_stopped(tmp_path, upstream, out):
    source = write(tmp_path / "in", *[f"{upstream.url}/ok/{n}" for n in range(100)])
    with started(*arguments(source, out, "--rate", "5/h")) as process:
        upstream.wait_until(lambda up: up.stats().total.count == 5 and up.stats().total.in_flight == 0, 30)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert len(results(out)) == 5


def test_a_file_that_may_not_grow_is_an_error_and_the_journal_stays_good(tmp_path, upstream, out):
    source = write(tmp_path / "in", *[f"{upstream.url}/ok/{n}" for n in range(200)])

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    # The limit would also hit the data of a coverage measurement.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with launched(*arguments(source, out), preexec_fn=limited, env=plain) as process:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "cannot write" in errors
        assert "Traceback" not in errors
        assert out.read_bytes().endswith(b"\n")
        assert comity(*arguments(source, out)).returncode == 0
        assert sorted(by_line(out)) == list(range(1, 201))


def test_a_closed_pipe_is_an_error(tmp_path, upstream):
    source = write(tmp_path / "in", *[f"{upstream.url}/ok/{n}?ms=20" for n in range(500)])
    with started("run", source, "--progress", "off") as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(60)
        process.stderr.close()
        assert process.returncode == 1
        assert "cannot write: standard output: Broken pipe" in errors
        assert "Traceback" not in errors
        assert len(upstream.log) < 500


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "2>/dev/full"])
def test_a_run_without_a_standard_stream_ends_as_any_other(tmp_path, upstream, out, closed):
    source = write(tmp_path / "in", f"{upstream.url}/ok/1")
    shell = shlex.join(command("run", source, "-o", out))
    assert subprocess.run(f"{shell} {closed}", shell=True, check=False, timeout=60).returncode == 0
    assert by_line(out)[1]["ok"]


def test_results_for_a_closed_standard_output_are_an_error(tmp_path, upstream):
    source = write(tmp_path / "in", f"{upstream.url}/ok/1")
    shell = shlex.join(command("run", source))
    done = subprocess.run(f"{shell} >&-", shell=True, check=False, timeout=60, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "cannot write: standard output" in done.stderr


def test_a_reader_that_is_slow_does_not_let_requests_time_out(tmp_path, upstream):
    rows = [f"{upstream.url}/ok/{n}?bytes=20000" for n in range(500)]
    with started("run", write(tmp_path / "in", *rows), "--progress", "off", "--concurrency", 4) as process:
        # More than a pipe holds is waiting; the run stops sending until it is read.
        upstream.wait_until(lambda up: up.stats().total.count >= 20, 30)
        lines = process.stdout.read().splitlines()
        process.communicate()
        assert (process.returncode, len(lines)) == (0, 500)


def test_ordered_results_can_go_to_standard_output(tmp_path, upstream):
    source = write(tmp_path / "in", *[f"{upstream.url}/ok/{n}?jitter=20" for n in range(100)])
    done = comity("run", source, "--ordered", "--progress", "off")
    assert [json.loads(line)["line"] for line in done.stdout.splitlines()] == list(range(1, 101))


def test_standard_input_is_taken_while_it_comes(tmp_path, upstream, out):
    with started("run", "-", "-o", out, "--progress", "off", stdin=subprocess.PIPE) as process:
        process.stdin.write(f"{upstream.url}/ok/1\n")
        process.stdin.flush()
        upstream.wait_until(lambda up: up.stats().total.count == 1, 30)
        process.stdin.write(f"{upstream.url}/ok/2")
        process.stdin.close()
        process.stdin = None
        process.communicate(timeout=60)
        assert process.returncode == 0
        assert sorted(by_line(out)) == [1, 2]


def test_a_run_from_standard_input_goes_on_when_it_is_given_again(tmp_path, upstream, out):
    rows = [f"{upstream.url}/ok/{n}\n" for n in range(300)]
    comity("run", "-", "-o", out, "--progress", "off", input="".join(rows[:200]))
    again = comity("run", "-", "-o", out, "--progress", "off", input="".join(rows))
    assert (again.returncode, len(by_line(out)), len(upstream.log)) == (0, 300, 300)
    other = comity("run", "-", "-o", out, "--progress", "off", input="".join([f"{upstream.url}/ok/new\n", *rows]))
    assert other.returncode == 2
    assert "belongs to another input" in other.stderr
    assert len(upstream.log) == 300


@pytest.fixture
def upstream():
    """No headers are kept: these runs are long."""
    with Upstream() as server:
        yield server
