"""`comity get`: one request, its answer, and what it took."""

from __future__ import annotations

import contextlib
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from comity.cli.streams import tell
from comity.errors import ComityError, InvalidRequest, Limited, OptionsError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from comity.client.response import Response
    from comity.policy.attempt import Attempt

_LISTS: list[str] = []
_PHASES = ("queue", "dns", "connect", "tls", "upload", "response", "download", "total")


def get(
    *,
    url: Annotated[str, typer.Argument(metavar="URL", help="http or https.")],
    method: Annotated[
        str | None, typer.Option("-X", "--method", metavar="M", help="The method.  [GET, with a body POST]")
    ] = None,
    header: Annotated[
        list[str], typer.Option("-H", "--header", metavar="'K: V'", help="A header, or @FILE with some. Repeatable.")
    ] = _LISTS,
    body: Annotated[
        str | None, typer.Option("-d", "--body", metavar="TEXT", help="The body; - reads it from standard input.")
    ] = None,
    json: Annotated[str | None, typer.Option(metavar="JSON", help="The body as JSON, with its Content-Type.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where the answer's body goes.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Send this header with a key, the same on every attempt, to allow retries."),
    ] = None,
    retries: Annotated[str | None, typer.Option(metavar="N", help="Sends after the first.  [2]")] = None,
    max_retry_wait: Annotated[
        str | None, typer.Option(metavar="D", help="The longest wait that a server may ask for.  [60s]")
    ] = None,
    timeout: Annotated[str | None, typer.Option(metavar="D", help="Longest time of one attempt.")] = None,
    deadline: Annotated[str | None, typer.Option(metavar="D", help="Longest time of all attempts together.")] = None,
) -> None:
    """Send one request; the body goes to standard output, its attempts with the time of each phase to standard error.

    Exit codes: 0 answered below 400, 1 not, 2 wrong usage, 75 the server asks for a longer wait than allowed.
    """
    from comity.cli import loops, parsing

    try:
        policy = parsing.policy(retries=retries, max_retry_wait=max_retry_wait, timeout=timeout, deadline=deadline)
        parsing.check_one_body(json, body)
        headers = parsing.headers(header)
        options: dict[str, Any] = {"headers": headers, "content": _content(body), "json": _json(json)}
        if idempotency_key is not None:
            name = parsing.header_name(idempotency_key, "--idempotency-key")
            if name.lower() not in map(str.lower, headers):
                headers[name] = f'"{secrets.token_hex(16)}"'
            options["idempotent"] = True
        verb = parsing.method(method or ("GET" if json is None and body is None else "POST"))
        code = loops.run(_get(verb, url, policy, options, output))
    except (OptionsError, InvalidRequest) as error:
        loops.refuse("get", error)
    except ComityError as error:
        tell(f"comity get: {error}")
        code = 1
    raise typer.Exit(code)


async def _get(method: str, url: str, policy: Any, options: dict[str, Any], output: Path | None) -> int:
    from comity.client.async_client import AsyncClient

    async with AsyncClient(policy=policy, raise_for="never") as client:
        try:
            response = await client.request(method, url, **options)
        except InvalidRequest:
            raise
        except RequestError as error:
            _show(error.attempts)
            tell(f"{type(error).__name__}: {error}")
            return 75 if isinstance(error, Limited) else 1
    _show(response.attempts)
    _write(response, output)
    return 0 if response.status_code < 400 else 1


def _content(body: str | None) -> bytes | str | None:
    return sys.stdin.buffer.read() if body == "-" else body


def _json(text: str | None) -> msgspec.Raw | None:
    """Return JSON that is sent as it stands."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise OptionsError("--json", text, 'JSON such as {"name": "x"}', reason=str(error)) from None


def _write(response: Response, output: Path | None) -> None:
    try:
        if output is not None:
            output.write_bytes(response.content)
            return
        out = sys.stdout.buffer
        out.write(response.content)
        if sys.stdout.isatty() and response.content and not response.content.endswith(b"\n"):
            out.write(b"\n")
        out.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            tell(f"comity get: cannot write {output or 'the answer'}: {(error.strerror or str(error)).lower()}")
        if output is None:
            # Python would complain again at its end, where it flushes once more.
            sys.stdout = None
        raise typer.Exit(1) from None


def _show(attempts: Sequence[Attempt]) -> None:
    """Draw the attempts as a table on standard error; times in milliseconds, phases that never happened left out."""
    from rich.console import Console
    from rich.table import Table

    times = [attempt.timings.as_dict() for attempt in attempts]
    phases = [phase for phase in _PHASES if any(each[phase] for each in times)]
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("#", "status", "waited", *phases):
        table.add_column(name, justify="left" if name == "status" else "right", no_wrap=True)
    for attempt, each in zip(attempts, times, strict=True):
        outcome = str(attempt.status) if attempt.status is not None else (attempt.error or "").partition(":")[0]
        cells = (f"{each[phase] * 1000:.1f}" if each[phase] else "-" for phase in phases)
        table.add_row(str(attempt.number), outcome, f"{attempt.waited * 1000:.0f}", *cells)
    console = Console(stderr=True)
    with contextlib.suppress(OSError):
        console.print(table)
        console.print("times in ms", style="dim", highlight=False)
