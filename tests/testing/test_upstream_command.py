"""`comity upstream` as a process of its own, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from comity.cli.upstream import upstream
from comity.testing import Upstream

PEM = Path(__file__).with_name("upstream_loopback.pem")
PROGRAM = "import typer; from comity.cli.upstream import upstream; typer.run(upstream)"

app = typer.Typer()
app.command()(upstream)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_stops_on_a_signal(number):
    with subprocess.Popen([sys.executable, "-c", PROGRAM, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            ready = json.loads(process.stdout.readline())
            assert ready["url"] == f"http://127.0.0.1:{ready['port']}"
            with urllib.request.urlopen(ready["url"] + "/ok/1") as answer:
                assert answer.read() == b'{"id":"1"}'
            with pytest.raises(ConnectionResetError):
                urllib.request.urlopen(ready["url"] + "/reset")
            process.send_signal(number)
            assert process.wait(10) == 0
            assert process.stdout.read() == ""
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", "0.0.0.0"], "loopback"),
        (["--tls-key", str(PEM)], "--tls-cert is missing"),
        (["--tls-cert", "no-such.pem"], "no-such.pem"),
        (["--keep-alive", "0"], "more than 0 seconds"),
        (["--port", "70000"], "65535"),
    ],
)
def test_an_option_that_cannot_be_used_ends_it_with_2(arguments, says):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_port_that_is_taken_ends_it_with_1():
    with Upstream() as up:
        result = CliRunner().invoke(app, ["--port", str(up.port)])
    assert result.exit_code == 1
    assert f"port {up.port}" in result.stderr
