"""Moment: times by themselves, and lengths before now."""

from __future__ import annotations

import pytest

from comity.cli.moment import moment
from comity.errors import OptionsError
from comity.policy.dates import rfc3339

NOW = rfc3339("2026-12-24T18:00:00Z")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2026-12-24T18:00:00+01:00", "2026-12-24T18:00:00+01:00"),
        ("1h", "2026-12-24T17:00:00.000Z"),
        ("250ms", "2026-12-24T17:59:59.750Z"),
        ("90", "2026-12-24T17:58:30.000Z"),
    ],
)
def test_a_time_stays_and_a_length_is_so_long_ago(text, read):
    assert moment(text, "--since", NOW) == read


@pytest.mark.parametrize("text", ["yesterday", "2026-12-24", "off", "", "-1h", "999999999d"])
def test_what_is_neither_is_refused_with_both_forms(text):
    with pytest.raises(OptionsError, match=r"^--since=.*2026-12-24T18:00:00Z.*1h"):
        moment(text, "--since", NOW)
