"""`comity demo`: the three ways of a delivery, shown by a real service and a real upstream."""

from __future__ import annotations

import os
import re

import pytest

from comity.cli.demo import CASES, _report
from tests.command import comity

LINE = re.compile(r" *[\d.]+ s  (\w+) +(\d) +(\d{3})(?:  ━+ ([\d.]+) s)?(?:  (\w+))?")


def test_three_requests_are_shown_attempt_by_attempt_with_the_gaps_and_nothing_stays_behind(tmp_path):
    """NP-037, NP-038: the gaps double, give or take a fifth each; what else the machine did can only make them longer."""
    done = comity("demo", "--backoff-ms", 100, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    told = [found.groups() for found in map(LINE.fullmatch, done.stdout.splitlines()) if found]
    assert sorted((name, number, status, end) for name, number, status, _, end in told) == [
        ("flaky", "1", "503", None),
        ("flaky", "2", "503", None),
        ("flaky", "3", "503", None),
        ("flaky", "4", "200", "completed"),
        ("refused", "1", "422", "failed"),
        ("smooth", "1", "200", "completed"),
    ]
    gaps = [float(gap) for *_, gap, _ in told if gap]
    assert all(gap >= least for gap, least in zip(gaps, (0.15, 0.31, 0.63), strict=True))
    assert done.stdout.count("as expected") == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "did not end"),
        (
            {"status": "failed", "attemptCount": 2, "lastError": "HTTP 503", "result": None},
            "expected: completed after 4",
        ),
    ],
)
def test_an_end_that_is_not_the_expected_one_is_told(found, said, capsys):
    """NP-037"""
    assert not _report("flaky", found)
    assert said in capsys.readouterr().out


def test_what_is_expected_covers_each_path():
    """NP-037: success at the first try, after retries, and a refusal that is final."""
    assert {(case.status, case.attempts > 1) for case in CASES.values()} == {
        ("completed", False), ("completed", True), ("failed", False),
    }  # fmt: skip
