"""Help: the defaults that it tells, in brackets, are those of the options."""

from __future__ import annotations

import pytest
import typer

from comity.bulk.job import MAX_BODY
from comity.cli.app import app
from comity.policy.options import Policy

DEFAULTS = {
    "concurrency": f"{Policy().concurrency}",
    "retries": f"{Policy().retry.attempts - 1}",
    "max_retry_wait": f"{Policy().retry.max_retry_after:g}s",
    "max_body": f"{MAX_BODY >> 20}MB",
}


@pytest.mark.parametrize(
    ("command", "options"),
    [("run", set(DEFAULTS)), ("get", {"retries", "max_retry_wait"}), ("simulate", set(DEFAULTS) - {"max_body"})],
)
def test_a_default_in_the_help_is_that_of_the_option(command, options):
    told = {option.name: option.help for option in typer.main.get_command(app).commands[command].params}
    assert {name: told[name].rpartition("  [")[2] for name in options} == {
        name: f"{DEFAULTS[name]}]" for name in options
    }
