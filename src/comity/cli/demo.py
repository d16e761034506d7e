"""`comity demo`: three requests through durable delivery, from submission to end, on this machine alone."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from comity.cli.loops import refuse
from comity.cli.streams import tell
from comity.errors import ComityError

if TYPE_CHECKING:
    from comity.service.client import AsyncServiceClient


class Case(NamedTuple):
    """A request of the demo, and how it has to end."""

    path: str
    status: str
    attempts: int
    last_error: str | None


CASES = {
    "smooth": Case("/ok/1", "completed", 1, None),
    "flaky": Case("/flaky/1?fail=3&code=503", "completed", 4, None),
    "refused": Case("/status/422", "failed", 1, "HTTP 422"),
}

_BACKOFF_MS = 250
_SPARE = 30.0
_LONGEST_BAR = 40


def demo(
    *,
    backoff_ms: Annotated[
        int,
        typer.Option(min=100, max=10_000, help="The wait before retry n is so many ms times 2^n, give or take 20 %."),
    ] = _BACKOFF_MS,
) -> None:
    """Deliver three requests durably: one succeeds at once, one at its fourth attempt, one is refused for good.

    It starts an upstream and the service on free ports of this machine, prints every attempt as it ends, and leaves nothing
    behind. Exit codes: 0 all ended as they have to, 1 not.
    """
    from comity.cli import loops

    try:
        import comity.web.app  # noqa: F401 - what it needs may not be installed
    except ImportError as error:
        refuse("demo", ComityError(f"{error.name} is not installed; pip install 'comity[serve]'"))
    with tempfile.TemporaryDirectory(prefix="comity-") as folder:
        ends = loops.run(_deliver(Path(folder), backoff_ms))
    print()
    wrong = [name for name in CASES if not _report(name, ends.get(name))]
    raise typer.Exit(1 if wrong else 0)


async def _deliver(folder: Path, backoff_ms: int) -> Mapping[str, dict[str, Any]]:
    """Return how each request ended; one that did not end in time is not there."""
    from comity.service.client import AsyncServiceClient
    from comity.testing.upstream import Upstream

    ends: dict[str, dict[str, Any]] = {}
    slots = sum(2**retry for retry in range(1, max(case.attempts for case in CASES.values())))
    try:
        async with (
            asyncio.timeout(_SPARE + slots * 1.2 * backoff_ms / 1_000),
            Upstream() as upstream,
            _service(folder) as url,
            AsyncServiceClient(url) as service,
        ):
            names = {}
            for name, case in CASES.items():
                made = await service.submit(upstream.url + case.path, body=name, backoff_ms=backoff_ms)
                names[made["id"]] = name
                print(f"{name:8} {made['status']}  POST {case.path}", flush=True)
            print("\n    time  request  attempt  answer  since the attempt before")
            await _follow(service, names, ends)
    except TimeoutError:
        tell("comity demo: some requests did not end in time")
    except ComityError as error:
        tell(f"comity demo: {error}")
    return ends


@asynccontextmanager
async def _service(folder: Path) -> AsyncIterator[str]:
    """Run the service over a new store; yield its URL."""
    from comity.service.guard import Guard
    from comity.service.service import Service
    from comity.store.sqlite.migrations import migrate
    from comity.store.sqlite.store import SqliteStore
    from comity.web.feed import Feed
    from comity.web.room import Room
    from comity.web.shared import Shared
    from comity.web.stack import stacked

    guard = Guard(allow=["127.0.0.0/8"])
    migrate(folder / "demo.sqlite")
    async with AsyncExitStack() as opened:
        store = SqliteStore(folder / "demo.sqlite")
        opened.push_async_callback(store.close)
        shared = Shared(store=store, guard=guard, feed=Feed(store), room=Room(store, None))
        yield (await opened.enter_async_context(stacked(shared, Service(store, guard=guard)))).url


async def _follow(service: AsyncServiceClient, names: Mapping[str, str], ends: dict[str, dict[str, Any]]) -> None:
    """Print each attempt when the service tells of its end, until all requests have ended."""
    began: datetime | None = None
    async with aclosing(service.events(after=0)) as events:
        async for event in events:
            name = names.get(event["delivery"])
            if name is None or event["attempt"] is None:
                continue
            told = await service.get(event["delivery"])
            began = began or datetime.fromisoformat(told["createdAt"])
            print(_line(name, told, event, began), flush=True)
            if event["kind"] in {"completed", "failed"}:
                ends[name] = told
            if len(ends) == len(names):
                return


def _line(name: str, told: Mapping[str, Any], event: Mapping[str, Any], began: datetime) -> str:
    number = event["attempt"]
    made = [datetime.fromisoformat(each["madeAt"]) for each in told["attempts"][:number]]
    answer = told["attempts"][number - 1]
    text = f"{(made[-1] - began).total_seconds():6.2f} s  {name:8} {number:6}  {answer['statusCode'] or answer['error']!s:>7}"
    if number > 1:
        gap = (made[-1] - made[-2]).total_seconds()
        text += f"  {'━' * min(_LONGEST_BAR, round(2_000 * gap / told['backoffMs']))} {gap:.2f} s"
    return text if event["kind"] == "retrying" else f"{text}  {event['kind']}"


def _report(name: str, told: Mapping[str, Any] | None) -> bool:
    """Say how a request ended; return whether it had to."""
    case = CASES[name]
    if told is None:
        print(f"{name:8} did not end")
        return False
    found = Case(case.path, told["status"], told["attemptCount"], told["lastError"])
    outcome = found.last_error or f"HTTP {told['result']['statusCode']}"
    expected = "as expected" if found == case else f"expected: {case.status} after {case.attempts}"
    print(
        f"{name:8} {found.status:9} after {found.attempts} attempt{'s' * (found.attempts != 1)}, {outcome}, {expected}"
    )
    return found == case
