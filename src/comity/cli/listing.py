"""Listing: what the service says, as JSON lines for programs, and as tables and lines for people who sit at a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from comity.policy.dates import rfc3339
from comity.policy.units import NS

Json = dict[str, Any]
Columns = Mapping[str, Callable[[Json], object]]


def _time(name: str) -> Callable[[Json], object]:
    return lambda told: _instant(told[name])


def _instant(text: str | None) -> str:
    return "" if text is None else text[:19].replace("T", " ")


def _from_now(text: str | None) -> str:
    """Return how long ago it was, or in how long it is, in the largest unit that says enough."""
    moment = None if text is None else rfc3339(text)
    if moment is None:
        return ""
    off = abs(time.time_ns() - moment) // NS
    unit, size = next((each for each in (("d", 86_400), ("h", 3_600), ("m", 60)) if off >= 2 * each[1]), ("s", 1))
    return f"{off // size}{unit}"


def _counts(told: Json) -> str:
    return ", ".join(f"{count} {name}" for name, count in told["counts"].items() if count)


def _standing(told: Json) -> str:
    for word, until in (("blocked", told["originBlockedUntil"]), ("held", told["originPausedUntil"])):
        if until is not None:
            return f"{word} until {_instant(until)}"
    return " ".join(word for word in ("paused", "ordered") if told[word])


DELIVERIES: Columns = {
    "id": lambda told: told["id"],
    "status": lambda told: "sending" if told["sending"] else told["status"],
    "age": lambda told: _from_now(told["createdAt"]),
    "request": lambda told: f"{told['method']} {told['url']}",
    "why": lambda told: told["lastError"] or told["reason"],
}
LANES: Columns = {
    "lane": lambda told: told["key"],
    "stands": _standing,
    "deliveries": _counts,
    "limits": lambda told: json.dumps(told["limits"]) if told["limits"] else "",
}
SCHEDULES: Columns = {
    "id": lambda told: told["id"],
    "cron": lambda told: told["cron"],
    "zone": lambda told: told["zone"],
    "next in": lambda told: "paused" if told["paused"] else _from_now(told["nextAt"]),
    "request": lambda told: f"{told['method']} {told['url']}",
}
_ATTEMPTS: Columns = {
    "#": lambda told: told["attemptNumber"],
    "made": _time("madeAt"),
    "waited ms": lambda told: told["delayBeforeMs"],
    "took ms": lambda told: told["waitedMs"],
    "answer": lambda told: told["error"] or told["statusCode"],
    "then": lambda told: told["decision"],
}
_LONG = {"request", "zone", "why", "lane", "deliveries", "limits", "answer"}
"""What takes several lines where a terminal is narrow."""

_SHOWN = (
    "status", "reason", "lastError", "lane", "priority", "delivery", "idempotencyKey", "schedule", "callbackUrl",
    "createdAt", "dueAt", "deadline", "endedAt",
)  # fmt: skip


def for_people(*, as_json: bool) -> bool:
    """Return whether a person reads the standard output and did not ask for JSON."""
    return not as_json and sys.stdout.isatty()


def line(told: Json) -> None:
    """Print an object as JSON."""
    print(json.dumps(told, ensure_ascii=False), flush=True)


def rows(told: Iterable[Json], columns: Columns, *, as_json: bool) -> bool:
    """Print objects: a table on a terminal, else as JSON lines. Times are in UTC. Return True."""
    if for_people(as_json=as_json):
        _table(told, columns)
    else:
        for each in told:
            line(each)
    return True


def delivery(told: Json, *, as_json: bool) -> None:
    """Print a delivery with its attempts and what came of it."""
    if not for_people(as_json=as_json):
        line(told)
        return
    print(f"{told['id']}  {_plain(told['method'])} {_plain(told['url'])}")
    for name in _SHOWN:
        if told[name] is not None:
            print(f"  {name:<15} {_plain(told[name])}")
    if told["attempts"]:
        _table(told["attempts"], _ATTEMPTS)
    if (result := told["result"]) is not None:
        cut = ", of which this is the beginning" if result["truncated"] else ""
        print(f"  {result['statusCode']}, {result['size']} bytes{cut}")
        if result["body"]:
            print("\n".join(map(_plain, result["body"].splitlines())))


def event(told: Json, *, as_json: bool) -> None:
    """Print what happened: when, what, to what, and why."""
    if not for_people(as_json=as_json):
        line(told)
        return
    status = None if told["statusCode"] is None else f"HTTP {told['statusCode']}"
    said = [told["delivery"], told["lane"] or told["origin"], status, None if told["note"] == status else told["note"]]
    print(_instant(told["at"]), f"{told['kind']:<12}", *(_plain(each) for each in said if each), flush=True)


def _table(told: Iterable[Json], columns: Columns) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in columns:
        # Nothing is cut: ids and lanes are named again in other commands.
        table.add_column(name, no_wrap=name not in _LONG, overflow="fold")
    for each in told:
        table.add_row(*(_plain(cell(each)) for cell in columns.values()))
    Console(markup=False, highlight=False, emoji=False).print(table)


def _plain(value: object) -> str:
    """Return a value for a terminal, which others' bytes may not steer."""
    text = "" if value is None else str(value)
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    )
