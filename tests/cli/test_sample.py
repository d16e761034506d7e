"""`comity sample`: the shipped sample goes through the real command."""

from __future__ import annotations

from comity.cli.sample import _requests
from tests.command import comity


def test_the_sample_stays_within_both_limits_and_says_so():
    done = comity("sample", "--rows", "45", "--progress", "off")
    assert done.returncode == 0
    assert "sent 49  retried 4  429s 0  ok 45  failed 0" in done.stderr
    assert "windows over the limit, as the server counted: 0" in done.stderr


def test_its_files_can_be_kept(tmp_path):
    arguments = ("sample", "--rows", "3", "--progress", "off", "--keep", tmp_path / "kept")
    assert comity(*arguments).returncode == 0
    assert len((tmp_path / "kept" / "results.jsonl").read_text().splitlines()) == 3
    again = comity(*arguments)
    assert again.returncode == 2
    assert "--keep=" in again.stderr


def test_the_shipped_sample_has_300_requests_for_two_hosts():
    rows = list(_requests(300, "80"))
    assert len(rows) == 300
    assert {row["url"].split("/")[2] for row in rows} == {"127.0.0.1:80", "localhost:80"}
    assert sum("/flaky/" in row["url"] for row in rows) == 30
