"""`comity get`: one request, its answer, and what it took."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from comity.errors import ComityError, InvalidRequest, Limited, OptionsError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from comity.client.messages import Response
    from comity.policy.attempt import Attempt

_LISTS: list[str] = []
_PHASES = ("queue", "dns", "connect", "tls", "upload", "response", "download", "total")


def get(
    *,
    url: Annotated[str, typer.Argument(metavar="URL", help="http or https.")],
    method: Annotated[str, typer.Option(metavar="M", help="The method.")] = "GET",
    header: Annotated[list[str], typer.Option(metavar="'K: V'", help="A header. Repeatable.")] = _LISTS,
    body: Annotated[str | None, typer.Option(metavar="TEXT", help="The body; - reads it from standard input.")] = None,
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
        policy = parsing.policy(
            rate=(),
            at_once=None,
            min_gap=None,
            retries=retries,
            max_retry_wait=max_retry_wait,
            timeout=timeout,
            deadline=deadline,
            measured="client",
        )
        content = sys.stdin.buffer.read() if body == "-" else body
        options = {"headers": parsing.headers(header), "content": content}
        code = loops.run(_get(parsing.method(method), url, policy, options))
    except (OptionsError, InvalidRequest) as error:
        loops.refuse("get", error)
    except ComityError as error:
        typer.echo(f"comity get: {error}", err=True)
        code = 1
    raise typer.Exit(code)


async def _get(method: str, url: str, policy: Any, options: dict[str, Any]) -> int:
    from comity.client.async_client import AsyncClient

    async with AsyncClient(policy=policy, raise_for="never") as client:
        try:
            response = await client.request(method, url, **options)
        except InvalidRequest:
            raise
        except RequestError as error:
            _show(error.attempts)
            typer.echo(f"{type(error).__name__}: {error}", err=True)
            return 75 if isinstance(error, Limited) else 1
    _show(response.attempts)
    _write(response)
    return 0 if response.status_code < 400 else 1


def _write(response: Response) -> None:
    out = sys.stdout.buffer
    try:
        out.write(response.content)
        if sys.stdout.isatty() and response.content and not response.content.endswith(b"\n"):
            out.write(b"\n")
        out.flush()
    except BrokenPipeError:
        # Python would complain again at its end, where it flushes once more.
        sys.stdout = None
        raise typer.Exit(1) from None


def _show(attempts: Sequence[Attempt]) -> None:
    """Draw the attempts as a table on standard error; times in milliseconds."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("#", "status", "waited", *_PHASES):
        table.add_column(name, justify="left" if name == "status" else "right", no_wrap=name != "status")
    for attempt in attempts:
        times = attempt.timings.as_dict()
        outcome = str(attempt.status) if attempt.status is not None else (attempt.error or "").partition(":")[0]
        cells = (f"{times[phase] * 1000:.1f}" if times[phase] else "-" for phase in _PHASES)
        table.add_row(str(attempt.number), outcome, f"{attempt.waited * 1000:.0f}", *cells)
    console = Console(stderr=True)
    console.print(table)
    console.print("times in ms", style="dim", highlight=False)
