"""Commands that are forked off where everything is imported, as most tests have them: they are like those started from nothing."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager

import pytest

from comity.testing.upstream import Upstream
from tests.command import launched, started

WAYS = (started, launched)


@contextmanager
def umask(number):
    """Have a umask for the length of a block."""
    before = os.umask(number)
    try:
        yield
    finally:
        os.umask(before)


def test_what_it_is_given_and_what_it_gives_back_are_the_same(tmp_path):
    """Arguments, input, directory, environment and umask; both outputs, the exit code and the file's mode."""
    seen = []
    with Upstream() as upstream:
        rows = [json.dumps({"url": f"{upstream.url}/status/{status}", "id": "é"}) for status in (200, 404)]
        for way in WAYS:
            place = tmp_path / way.__name__
            place.mkdir()
            options = {"stdin": -1, "cwd": place, "env": os.environ | {"COMITY_STORE": "mysql://é", "COLUMNS": "50"}}
            with umask(0o027), way("run", "-", "-o", "out.jsonl", "--ordered", **options) as process:
                output, errors = process.communicate("\n".join(rows), timeout=60)
                told = (process.returncode, output, errors.rpartition(" in ")[0].partition("sent")[2])
            file = place / "out.jsonl"
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            with way("serve", **options) as process:
                refused = process.communicate(timeout=60)
                seen.append(
                    (told, file.stat().st_mode, [each["status"] for each in lines], process.returncode, refused)
                )
    assert seen[0] == seen[1]
    assert seen[0][0][0] == 1
    assert "mysql://é" in seen[0][-1][1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_it_does_not_handle_is_what_it_ended_with(way, number):
    with Upstream() as upstream, way("get", f"{upstream.url}/hang") as process:
        upstream.wait_until(lambda up: len(up.log) == 1, 60)
        process.send_signal(number)
        assert process.wait(60) == -number


def test_one_does_not_see_what_another_has_open():
    """Its output ends with it, though others that were started meanwhile still run."""
    with started("run", "-", stdin=-1) as first, started("run", "-", stdin=-1) as second:
        assert first.communicate(timeout=60)[0] == ""
        assert second.returncode is None
        second.stdin.close()
        second.stdin = None
        assert second.wait(60) == first.returncode == 0
