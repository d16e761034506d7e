"""Secrets of a run as the command: what it prints and what it leaves behind holds none."""

from __future__ import annotations

import json

import pytest

from comity.testing.upstream import Upstream
from tests.bulk.harness import write
from tests.command import comity

QUERY = "api_key=KEY1&code=CODE1&next=https%3A%2F%2Fh%2F%3Ftoken%3DTOKEN1"
SECRETS = ("PW1", "KEY1", "CODE1", "TOKEN1", "BEARER1", "COOKIE1", "HEADER1", "BODY1")


@pytest.mark.parametrize("output", ["out.jsonl", "out.sqlite"])
def test_no_secret_of_a_request_is_printed_or_left_behind(tmp_path, output):
    """SC-01, SC-05: URL, headers and body; through success, errors, a closed port and lines that cannot be sent."""
    headers = {"X-Api-Key": "HEADER1", "Cookie": "sid=COOKIE1"}
    with Upstream() as up:
        here = f"http://me:PW1@127.0.0.1:{up.port}"
        rows = [
            *({"url": f"{here}/{path}?{QUERY}", "headers": headers} for path in ("ok/1", "status/403", "status/500")),
            {"url": f"{here}/ok/2?{QUERY}", "method": "POST", "json": {"password": "BODY1"}},
            f"http://me:PW1@127.0.0.1:9/?{QUERY}",
            f"http://me:PW1@h:port/?{QUERY}",
            {"url": f"{here}/ok/3?{QUERY}", "headers": {"X-Api-Key": "HEADER1\n"}},
            {"url": f"{here}/ok/4?{QUERY}", "metod": "PUT"},
        ]
        source = write(tmp_path / "in.jsonl", *rows)
        options = ["--header", "Authorization: Bearer BEARER1", "--retries", "1", "--har", tmp_path / "calls.har"]
        done = comity("run", source, *options, "-o", tmp_path / output)
        dry = comity("run", source, *options, "-o", tmp_path / "new.jsonl", "--dry-run")
    assert (done.returncode, "ok 2" in done.stderr) == (1, True)
    assert json.loads((tmp_path / "calls.har").read_text())["log"]["entries"]
    left = {path.name: path.read_bytes().decode(errors="replace") for path in tmp_path.iterdir() if path != source}
    shown = {**left, "printed": done.stdout + done.stderr, "dry run": dry.stdout + dry.stderr}
    assert {(where, secret) for where, text in shown.items() for secret in SECRETS if secret in text} == set()


def test_no_secret_of_a_wrong_option_is_printed(tmp_path):
    """SC-05"""
    source = write(tmp_path / "in", "http://127.0.0.1:9/")
    wrong = (
        ["--header", "Authorization: Bearer \x01BEARER1"],
        ["--host", "http://me:PW1@h rate=ten"],
        ["--url", f"ftp://me:PW1@h/?{QUERY}"],
    )
    for options in wrong:
        done = comity("run", source, *options)
        assert done.returncode == 2
        assert [secret for secret in SECRETS if secret in done.stdout + done.stderr] == []
