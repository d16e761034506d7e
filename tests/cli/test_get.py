"""`comity get`: the body on one stream, the attempts on the other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from comity.testing.upstream import Upstream
from tests.command import comity, started


@pytest.fixture
def upstream():
    with Upstream() as server:
        yield server


def test_it_shows_the_body_and_each_attempt_with_its_phases(upstream):
    done = comity("get", f"{upstream.url}/flaky/a?fail=1&code=503")
    assert (done.returncode, json.loads(done.stdout)["key"]) == (0, "a")
    lines = done.stderr.splitlines()
    assert [word in lines[0] for word in ("status", "waited", "connect", "response", "total")] == [True] * 5
    assert [line.split()[:2] for line in lines[1:3]] == [["1", "503"], ["2", "200"]]


def test_an_error_status_ends_with_1_and_shows_its_body(upstream):
    done = comity("get", f"{upstream.url}/status/404?type=text/plain&body=gone")
    assert (done.returncode, done.stdout) == (1, "gone")


def test_a_request_can_be_shaped(upstream):
    done = comity("get", f"{upstream.url}/echo", "--method", "POST", "--header", "X-A: 1", "--body", "-", input="héllo")
    sent = json.loads(done.stdout)
    assert (sent["method"], sent["body"]["text"]) == ("POST", "héllo")
    assert ["X-A", "1"] in sent["headers"]


@pytest.mark.parametrize(
    ("arguments", "method", "body", "kind"),
    [
        (["-d", "a=1"], "POST", "a=1", []),
        (["--json", '{"a": 1}'], "POST", '{"a": 1}', ["application/json"]),
        (["-X", "PATCH", "-H", "content-type: a/b", "--json", "1"], "PATCH", "1", ["a/b"]),
        (["-X", "delete"], "DELETE", "", []),
    ],
)
def test_a_body_makes_it_a_post_unless_the_method_is_given(upstream, arguments, method, body, kind):
    sent = json.loads(comity("get", f"{upstream.url}/echo", *arguments).stdout)
    kinds = [value for name, value in sent["headers"] if name.lower() == "content-type"]
    assert (sent["method"], sent["body"]["text"] or "", kinds) == (method, body, kind)


def test_a_key_allows_a_post_to_be_retried_with_the_same_key(upstream):
    done = comity("get", f"{upstream.url}/flaky/a?fail=1&code=503", "-X", "POST", "--idempotency-key", "X-Key")
    assert done.returncode == 0
    assert upstream.stats().total.count == 2


def test_a_key_of_the_callers_own_is_sent_alone(upstream):
    arguments = ("-X", "POST", "--idempotency-key", "X-Key", "-H", "x-key: mine")
    sent = json.loads(comity("get", f"{upstream.url}/echo", *arguments).stdout)
    assert [value for name, value in sent["headers"] if name.lower() == "x-key"] == ["mine"]


def test_a_body_can_go_to_a_file(upstream, tmp_path):
    done = comity("get", f"{upstream.url}/status/200?type=text/plain&body=x", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout, (tmp_path / "out").read_text()) == (0, "", "x")
    assert comity("get", f"{upstream.url}/ok/1", "-o", tmp_path / "no" / "out").returncode == 1


@pytest.mark.parametrize("arguments", [["--json", "{"], ["--json", '"\udcff"'], ["--json", "1", "--body", "x"]])
def test_a_body_that_cannot_be_meant_is_refused(arguments):
    done = comity("get", "http://127.0.0.1:9/", *arguments)
    assert done.returncode == 2
    assert "cannot be used" in done.stderr


def test_a_full_disk_is_no_traceback(upstream):
    with Path("/dev/full").open("w") as full, started("get", f"{upstream.url}/ok/1", stdout=full) as process:
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "cannot write the answer: no space left" in errors
    assert "Traceback" not in errors


def test_what_matters_fits_on_a_narrow_terminal(unused_tcp_port):
    narrow = os.environ | {"COLUMNS": "80"}
    done = comity("get", f"http://127.0.0.1:{unused_tcp_port}/", "--retries", "0", env=narrow)
    lines = done.stderr.splitlines()
    assert lines[0].split()[:2] == ["#", "status"]
    assert "tls" not in lines[0]
    assert lines[1].split()[:2] == ["1", "ConnectFailed"]


def test_a_failure_is_told_with_its_attempts(unused_tcp_port):
    done = comity("get", f"http://127.0.0.1:{unused_tcp_port}/", "--retries", "0")
    assert done.returncode == 1
    assert "ConnectFailed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wait_that_is_too_long_ends_with_75(upstream):
    done = comity("get", f"{upstream.url}/status/429?retry_after=3600")
    assert done.returncode == 75
    assert "RateLimited" in done.stderr


@pytest.mark.parametrize("arguments", [["ftp://x/"], ["http://h/", "--retries", "x"], ["http://h/", "--header", "x"]])
def test_wrong_usage_ends_with_2(arguments):
    done = comity("get", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_traceback(upstream):
    with started("get", f"{upstream.url}/ok/1?bytes=1000000") as process:
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(20)
    assert process.returncode == 1
    assert "Traceback" not in errors
