"""`comity serve`, `worker`, `migrate`: the service as processes."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import typer

from comity.cli.guarded import guarded
from comity.cli.settled import settled
from comity.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from comity.service.guard import Guard
    from comity.service.policies import Policies
    from comity.service.service import Service
    from comity.service.vault import Vault
    from comity.store.base import Store
    from comity.store.records import Retention


@settled("store", "api", "worker", "log")
def serve(*, settings: dict[str, Any]) -> None:
    """Run the durable delivery service: the API and a worker in one process.

    A SQLite file that is not there is made; a store that is older waits for `comity migrate`. The first line of output is a JSON
    object with url and port. Ctrl-C or SIGTERM stops it: no more is taken in, and what is being sent may finish; a second one
    cuts that short.
    """
    _run("serve", lambda: _serve(settings), settings)


@settled("store", "worker", "log")
def worker(*, settings: dict[str, Any]) -> None:
    """Run a worker without the API: beside others, on one Postgres. A SQLite file serves one process at a time."""
    _run("worker", lambda: _work(settings), settings)


@settled("store")
def migrate(*, settings: dict[str, Any]) -> None:
    """Make the store, or bring its schema up to date. No process may have it open."""
    from comity.service.stores import migrate_store

    applied = guarded("migrate", lambda: asyncio.run(migrate_store(settings["store"])))
    for name in applied:
        print(f"applied {name}")
    if not applied:
        print("up to date")


def guard_of(settings: Mapping[str, Any]) -> Guard:
    """Return the guard that settings ask for.

    Raises:
        OptionsError: an entry cannot be used.
    """
    from comity.service.guard import Guard

    return Guard(allow=settings["allow"], metadata=settings["allow_metadata"])


def tokens_of(settings: Mapping[str, Any]) -> Any:
    """Return the tokens that settings ask for, None for none.

    Raises:
        OptionsError: the file cannot be used, or is missing where other machines can connect.
    """
    from comity.web.security import Tokens, is_loopback

    if settings["token_file"] is not None:
        return Tokens.of(settings["token_file"])
    if not is_loopback(settings["host"]):
        hint = "say --token-file FILE, so that not everybody on the network is let in"
        raise OptionsError("--host", settings["host"], hint=hint)
    return None


def policies_of(settings: Mapping[str, Any]) -> Policies:
    """Return the policies that settings have for submissions.

    Raises:
        OptionsError: one cannot be used.
    """
    from comity.service.policies import Policies

    return Policies(settings["policies"])


def vault_of(settings: Mapping[str, Any]) -> Vault:
    """Return what seals and opens stored secrets."""
    from comity.service.vault import Vault

    return Vault(settings["encryption_keys"], settings["secret_headers"])


def _run(command: str, main: Callable[[], Coroutine[Any, Any, None]], settings: Mapping[str, Any]) -> None:
    from comity.cli import logs, loops

    logs.start(settings["log"])
    guarded(command, lambda: loops.run(main()))


async def _serve(settings: Mapping[str, Any]) -> None:
    from comity.web.feed import Feed
    from comity.web.room import Room
    from comity.web.shared import Shared
    from comity.web.stack import stacked

    tokens, guard, policies, stop = tokens_of(settings), guard_of(settings), policies_of(settings), _Stop()
    async with AsyncExitStack() as opened:
        store = await _opened(opened, settings)
        vault = vault_of(settings)
        shared = Shared(
            store=store,
            guard=guard,
            feed=Feed(store),
            room=Room(store, settings["max_queue"]),
            policies=policies,
            vault=vault,
            tokens=tokens,
            signs=bool(settings["callback_secrets"]),
            max_body=settings["max_request"] or sys.maxsize,
            retention=_retention(settings),
        )
        service = _service(store, guard, vault, settings, stop)
        where = stacked(shared, service, host=settings["host"], port=settings["port"], hurried=stop.hurried)
        stack = await opened.enter_async_context(where)
        # Flushed: who started this process reads the line through a pipe before sending anything.
        print(json.dumps({"url": stack.url, "port": int(stack.url.rpartition(":")[2])}), flush=True)
        await _until(stop.asked, stack.over)
    stop.check()


async def _work(settings: Mapping[str, Any]) -> None:
    guard, stop = guard_of(settings), _Stop()
    async with AsyncExitStack() as opened:
        store = await _opened(opened, settings)
        service = await opened.enter_async_context(_service(store, guard, vault_of(settings), settings, stop))
        await _until(stop.asked, service.over)
    stop.check()


async def _opened(opened: AsyncExitStack, settings: Mapping[str, Any]) -> Store:
    from comity.cli import logs
    from comity.service.stores import migrate_store, open_store, sqlite_file

    path = sqlite_file(settings["store"])
    if path is not None and not path.exists():
        await migrate_store(settings["store"])
        logs.note(settings["log"], f"made the store {path}")
    store = await open_store(settings["store"])
    opened.push_async_callback(store.close)
    return store


def _service(store: Store, guard: Guard, vault: Vault, settings: Mapping[str, Any], stop: _Stop) -> Service:
    from comity.policy.timeouts import Timeout
    from comity.policy.units import seconds
    from comity.service.service import Service
    from comity.service.worker import DEFAULT, WorkerOptions

    policy = DEFAULT.replace(rate=settings["rate"] or None, concurrency=settings["concurrency"])
    return Service(
        store,
        guard=guard,
        secrets=settings["callback_secrets"],
        vault=vault,
        worker=WorkerOptions(
            slots=settings["slots"], policy=policy, hosts=settings["hosts"], lease=seconds(settings["lease"])
        ),
        timeout=None if settings["timeout"] is None else Timeout.of(settings["timeout"]),
        keep=sys.maxsize if settings["keep_body"] is None else settings["keep_body"],
        retention=_retention(settings),
        disable_after=settings["disable_after"],
        drain=settings["drain"],
        hurried=stop.hurried,
    )


def _retention(settings: Mapping[str, Any]) -> Retention:
    from comity.policy.units import seconds
    from comity.store.records import Retention

    ended, failed = seconds(settings["keep_ended"]), seconds(settings["keep_failed"])
    return Retention(completed=ended, cancelled=ended, failed=failed)


class _Stop:
    """What signals ask for: the first the end, the second that it comes at once.

    Attributes:
        asked, hurried: set by them.
    """

    def __init__(self) -> None:
        self.asked, self.hurried = asyncio.Event(), asyncio.Event()
        self._code = 0
        if sys.platform != "win32":
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, self._heard, number)

    def check(self) -> None:
        """Make the exit code tell of an end that was cut short.

        Raises:
            typer.Exit: there was a second signal.
        """
        if self.hurried.is_set():
            raise typer.Exit(self._code)

    def _heard(self, number: int) -> None:
        if self.asked.is_set():
            self._code = 128 + number
            self.hurried.set()
        self.asked.set()


async def _until(stopped: asyncio.Event, over: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Return when the end is asked for; raise when a part of the service failed for good."""
    tasks: set[asyncio.Task[Any]] = {asyncio.create_task(stopped.wait()), asyncio.create_task(over())}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
