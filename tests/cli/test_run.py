"""`comity run`: options, dry run and exit codes, as the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from comity import Client
from comity.testing.upstream import Upstream
from tests.bulk.harness import results, write
from tests.command import comity


@pytest.fixture
def upstream():
    with Upstream() as server:
        yield server


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["in", "--rate", "ten/s"], ["--rate='ten/s'", "100/min"]),
        (["in", "--host", "h rate=ten"], ["--host='h rate=ten'", "50/5s"]),
        (["in", "--url", "http://a/{}"], ["--url='http://a/{}'", "{id}"]),
        (["in", "--url", "htp://a/{id}"], ["--url='htp://a/{id}'", "htp"]),
        (["in", "-o", "r.csv"], ["-o='r.csv'", ".jsonl or .sqlite"]),
        (["in.csv"], ["INPUT='in.csv'", "column named url"]),
        (["nowhere"], ["INPUT='nowhere'", "no such file"]),
        (["."], ["INPUT='.'", "directory"]),
        (["in", "-o", "."], ["-o='.'", "directory"]),
        (["in", "-o", "in"], ["-o=", "it exists"]),
        (["in", "-o", "no/where"], ["-o=", "no/where"]),
        (["in", "--fast"], ["No such option", "--fast"]),
        ([], ["Missing argument"]),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_would_be_right(tmp_path, arguments, parts):
    write(tmp_path / "in", "http://127.0.0.1:9/")
    write(tmp_path / "in.csv", "id", "1")
    done = comity("run", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    for part in parts:
        assert part in done.stderr
    assert len(done.stderr.splitlines()) == 1 or "Usage" in done.stderr
    assert "Traceback" not in done.stderr


def test_results_go_to_standard_output_and_everything_else_to_the_other(tmp_path, upstream):
    source = write(tmp_path / "in", f"{upstream.url}/ok/1", f"{upstream.url}/status/404")
    done = comity("run", source)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, sorted(row["status"] for row in rows)) == (1, [200, 404])
    assert "sent 2  retried 0  429s 0  ok 1  failed 1" in done.stderr


def test_a_dry_run_sends_nothing_and_tells_hosts_and_time(tmp_path, upstream):
    rows = [f"{upstream.url}/ok/{n}" for n in range(101)] + [f"http://localhost:{upstream.port}/ok/1", "oops"]
    done = comity("run", write(tmp_path / "in", *rows), "--dry-run", "--rate", "50/5s", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert f"127.0.0.1:{upstream.port}  101 requests  10 s  (50/5s, 10 at once)" in done.stdout
    assert "102 requests to 2 hosts, 1 lines that cannot be sent" in done.stdout
    assert "at least 10 s" in done.stdout
    assert "cannot be sent: 1 x invalid (first: line 103: neither a JSON object nor a URL)" in done.stdout
    assert upstream.log == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["out.jsonl", "out.sqlite"])
def test_a_dry_run_counts_what_is_left_to_do(tmp_path, upstream, name):
    source = write(tmp_path / "in", f"{upstream.url}/ok/1", f"{upstream.url}/status/404")
    comity("run", source, "-o", tmp_path / name)
    write(source, f"{upstream.url}/ok/1", f"{upstream.url}/status/404", f"{upstream.url}/ok/3")
    before = (tmp_path / name).read_bytes()
    plain = comity("run", source, "-o", tmp_path / name, "--dry-run")
    again = comity("run", source, "-o", tmp_path / name, "--dry-run", "--retry-failed")
    assert "1 requests to 1 host, 2 finished earlier" in plain.stdout
    assert "2 requests to 1 host, 1 finished earlier" in again.stdout
    assert (tmp_path / name).read_bytes() == before


def test_without_a_rate_a_dry_run_names_no_time(tmp_path):
    done = comity("run", write(tmp_path / "in", "http://127.0.0.1:9/"), "--dry-run")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "no rate is set: it takes as long as the servers do")


@pytest.mark.parametrize(
    ("prepare", "output", "says"),
    [
        (lambda folder: None, "no/where", "the folder"),
        (lambda folder: (folder / "dir").mkdir(), "dir", "directory"),
        (lambda folder: (folder / "out").unlink(), "out", "it is gone"),
        (lambda folder: write(folder / "in", "http://127.0.0.1:9/other"), "out", "another input"),
        (lambda folder: write(folder / "out", "mine"), "out", "no result"),
    ],
)
def test_a_dry_run_refuses_what_the_run_would_and_changes_nothing(tmp_path, prepare, output, says):
    source = write(tmp_path / "in", "http://127.0.0.1:9/")
    comity("run", source, "-o", tmp_path / "out", "--retries", "0")
    prepare(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    dry = comity("run", source, "-o", tmp_path / output, "--dry-run")
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    wet = comity("run", source, "-o", tmp_path / output)
    assert (dry.returncode, dry.stderr) == (2, wet.stderr)
    assert says in dry.stderr


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_limits_of_a_host_that_no_row_goes_to_are_told(tmp_path, upstream, more):
    source = write(tmp_path / "in", f"{upstream.url}/ok/1")
    done = comity("run", source, "--host", "example.com rate=5/s", "--host", "127.0.0.1 rate=5/s", *more)
    said = "--host 'example.com' matched no request; the hosts are 127.0.0.1\n"
    assert said in done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("matched no request") == 1


def test_a_summary_says_why_rows_failed_and_that_nothing_left(tmp_path, unused_tcp_port):
    rows = [f"http://127.0.0.1:{unused_tcp_port}/{n}" for n in range(3)]
    done = comity("run", write(tmp_path / "in", *rows), "-o", tmp_path / "out", "--retries", "0")
    assert "sent 0 (and 3 attempts that never left)" in done.stderr
    assert "failed 3: 3 x ConnectFailed (first: line " in done.stderr
    again = comity("run", tmp_path / "in", "-o", tmp_path / "out")
    assert again.stderr.startswith("nothing to do: all 3 rows are finished")


def test_a_template_method_and_headers_apply_to_every_row(tmp_path, upstream):
    (tmp_path / "in.csv").write_text("n\n1\n2\n", encoding="utf-8")
    arguments = ["--url", f"{upstream.url}/echo?n={{n}}", "--method", "put", "--header", "X-A: 1", "--ordered"]
    comity("run", tmp_path / "in.csv", "-o", tmp_path / "out", *arguments)
    found = results(tmp_path / "out")
    assert [row["method"] for row in found] == ["PUT", "PUT"]
    assert [row["url"].rpartition("?")[2] for row in found] == ["n=1", "n=2"]
    assert all(["X-A", "1"] in row["body"]["headers"] for row in found)


def test_a_quota_that_is_used_up_ends_with_75_and_the_time_to_go_on(tmp_path, upstream):
    """PF-017"""
    source = write(tmp_path / "in", *[f"{upstream.url}/status/429?retry_after=3600"] * 3)
    done = comity("run", source, "-o", tmp_path / "out", "--max-retry-wait", "1s")
    assert done.returncode == 75
    assert "resume after 20" in done.stderr
    assert "UTC (in " in done.stderr


def test_help_imports_no_http_library():
    program = "import sys; from comity.cli.app import app; print(sorted({'aiohttp', 'uvloop'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_is_the_command_too():
    done = subprocess.run([sys.executable, "-m", "comity", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("comity 0.")


def test_paragraphs_of_the_help_are_wrapped_by_the_terminal_alone():
    narrow = {"COLUMNS": "60", "NO_COLOR": "1", "TERM": "dumb", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    lines = comity("run", "--help", env=narrow).stdout.splitlines()
    begin = next(number for number, line in enumerate(lines) if "An input line" in line)
    end = next(number for number, line in enumerate(lines) if number > begin and not line.strip())
    assert all(len(line.rstrip()) > 40 for line in lines[begin : end - 1])


def test_an_input_without_rows_is_told(tmp_path):
    done = comity("run", write(tmp_path / "in"), "-o", tmp_path / "out", "--progress", "off")
    assert done.returncode == 0
    assert f"{tmp_path / 'in'} holds no rows" in done.stderr


def test_the_command_lists_its_subcommands_and_version():
    listed, version = comity("--help"), comity("--version")
    assert all(name in listed.stdout for name in ("run", "get", "upstream", "sample"))
    assert version.stdout.startswith("comity 0.")


@pytest.mark.parametrize("name", ["out.jsonl", "out.db"])
def test_a_dry_run_into_a_file_that_is_not_ours_is_refused(tmp_path, name):
    (tmp_path / name).write_text("precious\n", encoding="utf-8")
    done = comity("run", write(tmp_path / "in", "http://127.0.0.1:9/"), "-o", tmp_path / name, "--dry-run")
    assert done.returncode == 2
    assert "-o=" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_attempt_can_be_recorded_in_a_har_file_without_secrets(tmp_path, upstream):
    """BR-07: the command line's headers are masked, too."""
    source = write(tmp_path / "in", f"{upstream.url}/ok/1?api_key=hunter2", f"{upstream.url}/status/404")
    done = comity("run", source, "--har", tmp_path / "run.har", "--header", "Authorization: Bearer hunter2")
    text = (tmp_path / "run.har").read_text()
    entries = json.loads(text)["log"]["entries"]
    assert (done.returncode, sorted(each["response"]["status"] for each in entries)) == (1, [200, 404])
    assert "hunter2" not in text


def test_a_run_that_goes_on_leaves_what_it_recorded_before(tmp_path, upstream):
    source = write(tmp_path / "in", f"{upstream.url}/ok/1")
    command = ("run", source, "-o", tmp_path / "out", "--har", tmp_path / "run.har")
    comity(*command)
    write(source, f"{upstream.url}/ok/1", f"{upstream.url}/ok/2")
    for _ in range(2):
        assert comity(*command).returncode == 0
    entries = json.loads((tmp_path / "run.har").read_text())["log"]["entries"]
    assert [each["request"]["url"][-5:] for each in entries] == ["/ok/1", "/ok/2"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mine.txt", "no HAR file"),
        ("in", "an input or the output"),
        ("out", "an input or the output"),
        ("no/where", "no such directory"),
    ],
)
def test_a_har_file_that_would_replace_something_else_is_refused_before_anything_is_sent(
    tmp_path, upstream, name, reason
):
    source = write(tmp_path / "in", f"{upstream.url}/ok/1")
    write(tmp_path / "mine.txt", "mine")
    done = comity("run", source, "-o", tmp_path / "out", "--har", tmp_path / name)
    assert (done.returncode, upstream.log) == (2, [])
    assert "--har" in done.stderr
    assert reason in done.stderr
    assert (tmp_path / "mine.txt").read_text() == "mine\n"
    assert not (tmp_path / "out").exists()


def test_a_har_file_that_another_run_writes_is_refused_before_anything_is_sent(tmp_path, upstream):
    source, path = write(tmp_path / "in", f"{upstream.url}/ok/1"), tmp_path / "run.har"
    with Client() as other, other.har(path):
        done = comity("run", source, "-o", tmp_path / "out", "--har", path)
    assert (done.returncode, upstream.log, (tmp_path / "out").exists()) == (2, [], False)
    assert "--har=" in done.stderr
    assert "another recording is writing to it" in done.stderr


def test_a_run_without_any_rate_tells_the_one_that_it_found(tmp_path, upstream):
    source = write(tmp_path / "in", *(f"{upstream.url}/bucket/a?rate=20&burst=10" for _ in range(60)))
    done = comity("run", source, "-o", tmp_path / "out", "--adaptive", "auto")
    assert done.returncode == 0
    assert "found: about " in done.stderr
    assert "at once" in done.stderr
