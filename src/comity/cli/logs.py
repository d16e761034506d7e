"""Logs on standard error, as text or as one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from comity import redact
from comity.cli.streams import tell


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the fields that the record brings; no secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact.text(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["error"] = redact.text(self.formatException(record.exc_info))
        return json.dumps(told)


class TextLines(logging.Formatter):
    """Time, level and message; no secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return redact.text(super().format(record))


def note(form: str, text: str) -> None:
    """Say what is no warning and yet worth a line, in a form of `start`."""
    if form == "json":
        logging.getLogger("comity.cli").info("%s", text)
    elif form == "text":
        tell(f"comity: {text}")


def start(form: str) -> None:
    """Begin to log: "text" warnings and worse, "json" every request of the API too, "off" nothing."""
    if form == "off":
        logging.getLogger("comity").addHandler(logging.NullHandler())
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLines() if form == "json" else TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.addHandler(handler)
    logging.getLogger("comity").setLevel(logging.INFO if form == "json" else logging.WARNING)
