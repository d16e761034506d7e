"""`comity submit`, `ls`, `show`, `cancel`, `retry`, `replay`, `schedules`, `lanes`, `tail`: the service from a shell.

What the service says is printed as JSON, one object a line; on a terminal what is looked at comes as tables and lines.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from comity.cli import listing
from comity.cli.moment import moment
from comity.cli.settled import settled
from comity.cli.streams import tell
from comity.errors import InvalidRequest, OptionsError, RequestError, StatusError

if TYPE_CHECKING:
    from comity.service.client import ServiceClient

_IDS = typer.Argument(metavar="ID...", help="Of deliveries.")
_LISTS: list[str] = []
_Status = Annotated[str | None, typer.Option(metavar="S", help="pending, retrying, completed, failed or cancelled.")]
_Lane = Annotated[str | None, typer.Option(metavar="KEY", help="Those of this lane.")]
_Schedule = Annotated[str | None, typer.Option(metavar="ID", help="Runs of this schedule.")]
_Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Those created since 2026-12-24T18:00:00Z, or for so long: 1h."),
]
_Until = Annotated[str | None, typer.Option(metavar="TIME", help="Those created before then, likewise.")]
_Reason = Annotated[str | None, typer.Option(metavar="R", help="Those that failed for this reason, such as attempts.")]
_AsJson = Annotated[bool, typer.Option("--json", help="JSON lines on a terminal too, as elsewhere.")]


@settled("client")
def submit(
    *,
    target: Annotated[str | None, typer.Argument(metavar="[URL]", help="Where to; or say --file.")] = None,
    method: Annotated[
        str, typer.Option("-X", "--method", metavar="M", help="GET, POST, PUT, PATCH or DELETE.")
    ] = "POST",
    header: Annotated[list[str], typer.Option("-H", "--header", metavar="'K: V'", help="Repeatable.")] = _LISTS,
    body: Annotated[str | None, typer.Option("-d", "--body", metavar="TEXT", help="- reads standard input.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="What makes it the same as before.")
    ] = None,
    lane: Annotated[str | None, typer.Option(metavar="KEY", help="The queue it stands in.  [its origin's]")] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="The terms of retrying that the service has under this name.")
    ] = None,
    max_retries: Annotated[int | None, typer.Option(metavar="N", help="Sends after the first.  [5]")] = None,
    priority: Annotated[int | None, typer.Option(metavar="0-9", help="0 goes first.  [5]")] = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Its lane has to be an ordered one, and is made so when it is new.")
    ] = False,
    signed: Annotated[
        bool, typer.Option("--signed", help="Sign each attempt by Standard Webhooks with the service's secrets.")
    ] = False,
    delay: Annotated[str | None, typer.Option(metavar="D", help="Not before so long from now.")] = None,
    run_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not before this time, such as 2026-12-24T18:00:00Z.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not to be sent from then on; with --cron a length, such as 10m.")
    ] = None,
    callback_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Gets a signed POST when the delivery has ended.")
    ] = None,
    cron: Annotated[
        str | None, typer.Option(metavar="'M H D M W'", help="Again and again at these times: '30 6 * * mon-fri'.")
    ] = None,
    zone: Annotated[str | None, typer.Option(metavar="Z", help="Whose clock --cron goes by.  [UTC]")] = None,
    overlap: Annotated[
        str | None, typer.Option(metavar="O", help="While the run before is alive: allow (the default) or skip.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Submissions as JSON lines, with the fields of the API; - reads standard input."
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Wait for the end (with --cron of the first run, with --file of all) and print that."
        ),
    ] = False,
    settings: dict[str, Any],
) -> None:
    """Submit a request, or a file of them, to be delivered.

    Exit codes: 0 all stored (with --wait: completed), 1 not, 2 wrong usage.
    """

    def work(service: ServiceClient) -> bool:
        from comity.cli import parsing

        if (target is None) == (file is None):
            raise OptionsError("--file", None if file is None else str(file), "either a URL or --file FILE")
        fields = {
            "headers": dict(parsing.headers(header)) or None,
            "lane": lane,
            "policy": policy,
            "max_retries": max_retries,
            "priority": priority,
            "ordered": ordered or None,
            "signed": signed or None,
            "delay": delay,
            "run_at": run_at,
            "deadline": deadline,
            "callback_url": callback_url,
            "cron": cron,
            "zone": zone,
            "overlap": overlap,
            "idempotency_key": idempotency_key,
            "body": sys.stdin.read() if body == "-" and file is None else body,
        }
        given = _given(**fields)
        if file is not None:
            if given:
                needs = f"no --{next(iter(given)).replace('_', '-')} beside it: each line says that itself"
                raise OptionsError("--file", str(file), needs)
            return _hand_in(service, file, wait=wait)
        told = service.submit(str(target), method=method, **given)
        if wait:
            told = service.wait(told["id"])
        listing.line(told)
        return not wait or told["status"] == "completed"

    _ask("submit", settings, work)


@settled("client")
def ls(
    *,
    status: _Status = None,
    lane: _Lane = None,
    since: _Since = None,
    until: _Until = None,
    reason: _Reason = None,
    schedule: _Schedule = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="The most that are printed.")] = 20,
    as_json: _AsJson = False,
    settings: dict[str, Any],
) -> None:
    """List deliveries, the newest first."""

    def work(service: ServiceClient) -> bool:
        filters = _filters(since, until, status=status, lane=lane, reason=reason, schedule=schedule)
        found = iter(service.deliveries(**filters))
        listing.rows(islice(found, limit), listing.DELIVERIES, as_json=as_json)
        if next(found, None) is not None:
            tell(f"there are more than these {limit}: -n says how many to show")
        return True

    _ask("ls", settings, work)


@settled("client")
def show(*, ids: Annotated[list[str], _IDS], as_json: _AsJson = False, settings: dict[str, Any]) -> None:
    """Show deliveries with their attempts and results."""

    def work(service: ServiceClient) -> bool:
        for each in ids:
            listing.delivery(service.get(each), as_json=as_json)
        return True

    _ask("show", settings, work)


@settled("client")
def cancel(*, ids: Annotated[list[str], _IDS], settings: dict[str, Any]) -> None:
    """Cancel deliveries: at once, or after the attempt under way."""
    _ask("cancel", settings, lambda service: _print_all(map(service.cancel, ids)))


@settled("client")
def retry(*, ids: Annotated[list[str], _IDS], settings: dict[str, Any]) -> None:
    """Send deliveries that wait now."""
    _ask("retry", settings, lambda service: _print_all(map(service.retry, ids)))


@settled("client")
def replay(
    *,
    ids: Annotated[
        list[str], typer.Argument(metavar="[ID...]", help="Of deliveries; or say which with options.")
    ] = _LISTS,
    status: _Status = None,
    lane: _Lane = None,
    since: _Since = None,
    until: _Until = None,
    reason: _Reason = None,
    settings: dict[str, Any],
) -> None:
    """Deliver again what has ended: the deliveries named, or all that match the options."""

    def work(service: ServiceClient) -> bool:
        filters = _filters(since, until, status=status, lane=lane, reason=reason)
        if bool(ids) == bool(filters):
            options = "--status, --lane, --since, --until and --reason"
            raise OptionsError("--status", status, f"either ids, or at least one of {options}")
        if ids:
            return _print_all(map(service.replay, ids))
        listing.line({"count": service.replay_all(**filters)})
        return True

    _ask("replay", settings, work)


@settled("client")
def schedules(
    *,
    number: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The schedule to show or change; without it all are listed.")
    ] = None,
    pause: Annotated[
        bool | None, typer.Option("--pause/--resume", help="Cancel the run that waits and make no more, or go on.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="End it, and cancel the run that waits.")] = False,
    as_json: _AsJson = False,
    settings: dict[str, Any],
) -> None:
    """List schedules, the oldest first, or show, pause, resume or remove one."""

    def work(service: ServiceClient) -> bool:
        if number is None:
            if remove or pause is not None:
                raise OptionsError("ID", None, "the schedule that is to be changed", secret=True)
            return listing.rows(service.schedules(), listing.SCHEDULES, as_json=as_json)
        if remove:
            if pause is not None:
                raise OptionsError(
                    "--remove", None, "alone: a schedule that is removed has nothing to pause", secret=True
                )
            service.remove_schedule(number)
            return True
        found = service.schedule(number) if pause is None else service.change_schedule(number, paused=pause)
        return listing.rows([found], listing.SCHEDULES, as_json=as_json)

    _ask("schedules", settings, work)


@settled("client")
def lanes(
    *,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="The lane to change; without it all are listed.")
    ] = None,
    pause: Annotated[bool | None, typer.Option("--pause/--resume", help="Send nothing of it, or go on.")] = None,
    rate: Annotated[list[str], typer.Option(metavar="R", help="Arrivals per time: 50/5s. Repeatable.")] = _LISTS,
    concurrency: Annotated[int | None, typer.Option(metavar="N", help="Sends in flight at once.")] = None,
    ordered: Annotated[
        bool | None,
        typer.Option("--ordered/--unordered", help="One after the other, the oldest first, or as slots allow."),
    ] = None,
    unblock: Annotated[bool, typer.Option("--unblock", help="End pause and block of its origin.")] = False,
    as_json: _AsJson = False,
    settings: dict[str, Any],
) -> None:
    """List lanes, or change one; that of an origin is made when it is not there. --rate and --concurrency replace all limits."""
    limits = _given(rate=rate or None, concurrency=concurrency)
    changes = _given(paused=pause, ordered=ordered, limits=limits or None, unblock=unblock or None)

    def work(service: ServiceClient) -> bool:
        if key is None and changes:
            raise OptionsError("KEY", None, "the lane that is to be changed", secret=True)
        found = service.lanes() if key is None else [service.change_lane(key, **changes)]
        return listing.rows(found, listing.LANES, as_json=as_json)

    _ask("lanes", settings, work)


@settled("client")
def tail(
    *,
    after: Annotated[int | None, typer.Option(metavar="SEQ", help="Begin behind this event.  [now]")] = None,
    as_json: _AsJson = False,
    settings: dict[str, Any],
) -> None:
    """Print what happens, until Ctrl-C; over restarts of the service, too."""

    def work(service: ServiceClient) -> bool:
        for each in service.events(after=after):
            listing.event(each, as_json=as_json)
        return True

    _ask("tail", settings, work)


def _ask(command: str, settings: dict[str, Any], work: Callable[[ServiceClient], bool]) -> None:
    from comity.cli import loops
    from comity.service.client import ServiceClient

    try:
        with ServiceClient(settings["url"], token=settings["token"]) as service:
            fine = work(service)
    except (OptionsError, InvalidRequest) as error:
        loops.refuse(command, error)
    except StatusError as error:
        tell(f"comity {command}: {_detail(error)}")
        fine = False
    except (RequestError, OSError) as error:
        tell(f"comity {command}: {error}")
        fine = False
    raise typer.Exit(0 if fine else 1)


def _detail(error: StatusError) -> str:
    """Return what a problem says, or the error when it is none."""
    try:
        return f"{error.status_code}: {json.loads(error.body)['detail']}"
    except (ValueError, KeyError, TypeError):
        return str(error)


def _hand_in(service: ServiceClient, file: Path, *, wait: bool) -> bool:
    """Submit the lines of a file; print what came of each, or with `wait` of those accepted how they ended."""
    accepted, fine = list[tuple[int, str]](), True
    with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as lines:
        for told in service.submit_many(_submissions(lines)):
            fine = fine and "accepted" in told
            if wait and "accepted" in told:
                accepted.append((told["line"], told["accepted"]["id"]))
            else:
                listing.line(told)
    for line, number in accepted:
        told = {"line": line} | service.wait(number)
        fine = fine and told["status"] == "completed"
        listing.line(told)
    return fine


def _submissions(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                told = json.loads(line)
            except ValueError:
                told = None
            if not isinstance(told, dict):
                raise OptionsError(f"--file, line {number}", None, "a JSON object", secret=True)
            yield told


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _filters(since: str | None, until: str | None, **others: str | None) -> dict[str, Any]:
    now = time.time_ns()
    times = {"since": since, "until": until}
    return _given(**others) | {name: moment(text, f"--{name}", now) for name, text in times.items() if text is not None}


def _print_all(told: Iterable[dict[str, Any]]) -> bool:
    for each in told:
        listing.line(each)
    return True
