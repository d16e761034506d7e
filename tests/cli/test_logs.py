"""Logs of the service: one line for each record, without secrets."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from comity.cli.logs import JsonLines, TextLines


def record(message, *args, fields=None, error=None):
    made = logging.LogRecord("comity.web", logging.ERROR, __file__, 1, message, args, error)
    if fields:
        made.fields = fields
    return made


def test_a_record_is_one_json_object_with_its_fields():
    line = JsonLines().format(record("a\nb %s", "c", fields={"status": 200}))
    told = json.loads(line)
    assert "\n" not in line
    assert {name: told[name] for name in ("level", "logger", "message", "status")} == {
        "level": "error", "logger": "comity.web", "message": "a\nb c", "status": 200
    }  # fmt: skip


@pytest.mark.parametrize("form", [JsonLines(), TextLines("%(message)s")])
def test_no_secret_stands_in_a_line_nor_in_its_traceback(form):
    try:
        raise ValueError("https://me:hunter2@api.example/?token=hunter2")
    except ValueError:
        line = form.format(record("Authorization: Bearer hunter2", error=sys.exc_info()))
    assert "ValueError" in line
    assert "hunter2" not in line
