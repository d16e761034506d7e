"""`comity doctor`: say whether the service would run as it is set."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import typer

from comity.cli.guarded import missing
from comity.cli.serving import guard_of, policies_of, tokens_of, vault_of
from comity.cli.settled import settled
from comity.errors import ComityError, OptionsError, StoreError

_LOOKED_AT = 500
"""So many of the newest deliveries of each state are looked at."""

Finding = tuple[Literal["ok", "warning", "error"], str]

_DAMAGING = ((3, 7, 0), (3, 51, 2))
"""The versions of SQLite that can damage a log that two connections reset at once (sqlite.org/wal.html#walresetbug)."""


@settled("store", "api", "worker", "log")
def doctor(*, settings: dict[str, Any], mistakes: dict[str, OptionsError]) -> None:
    """Check settings, store and versions; exit with 1 when the service would not run."""
    worst = 0
    for level, text in _findings(settings, mistakes):
        print(f"{level:8} {text}")
        worst = max(worst, int(level == "error"))
    raise typer.Exit(worst)


def _findings(settings: dict[str, Any], mistakes: dict[str, OptionsError]) -> Iterator[Finding]:
    yield "ok", f"Python {sys.version.split()[0]}"
    for mistake in mistakes.values():  # what is looked at below has the default in its place
        yield "error", f"settings: {mistake}"
    for name in ("starlette", "uvicorn", *(("cryptography",) if settings["encryption_keys"] else ())):
        if find_spec(name) is None:
            yield "error", missing(ModuleNotFoundError(name=name))
    if not settings["store"].startswith("postgres"):
        yield _sqlite(sqlite3.sqlite_version_info)
    yield _tried("store", lambda: _store(settings["store"]))
    yield from _postgres(settings["store"])
    yield _tried(
        "guard", lambda: (guard_of(settings), f"{len(settings['allow'])} allowed besides the public internet")[1]
    )
    if "hosts" not in mistakes:
        yield _tried("hosts", lambda: _hosts(settings["hosts"]))
    yield _tried("policies", lambda: ", ".join(policies_of(settings).names) or "none in the configuration")
    yield _tried("tokens", lambda: _tokens(settings))
    yield _tried("callbacks", lambda: _secrets(settings["callback_secrets"]))
    if "encryption_keys" not in mistakes:
        yield from _encryption(settings)
    yield from _open_to_all(settings)


def _open_to_all(settings: dict[str, Any]) -> Iterator[Finding]:
    from comity.service.stores import sqlite_file

    if sys.platform == "win32":
        return
    files: list[Path | None] = [settings["token_file"]]
    with suppress(ComityError):  # a store that cannot be used is told already
        files.append(sqlite_file(settings["store"]))
    for file in files:
        if file is not None and file.exists() and file.stat().st_mode & stat.S_IRWXO:
            yield "warning", f"everybody on this machine may read {file}: chmod o= {file}"


def _tried(what: str, check: Callable[[], str]) -> Finding:
    try:
        return "ok", f"{what}: {check()}"
    except ComityError as error:
        return "error", f"{what}: {error}"
    except ImportError as error:
        return "error", f"{what}: {missing(error)}"


def _sqlite(version: tuple[int, ...]) -> Finding:
    told = ".".join(map(str, version))
    if _DAMAGING[0] <= version <= _DAMAGING[1]:
        return "warning", (
            f"SQLite {told} can damage its log when two programs write one file at once; comity keeps other processes of "
            "its own out, so open the file with no other program while the service runs"
        )
    return "ok", f"SQLite {told}"


def _store(url: str) -> str:
    from comity.service.stores import open_store, sqlite_file

    path = sqlite_file(url)
    if path is not None and not path.exists():
        if not path.parent.is_dir():
            raise StoreError(f"{path}: there is no directory {path.parent}; make it first", reason="denied")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise StoreError(f"{path}: nothing can be made in {path.parent}, which may not be written", reason="denied")
        return f"{path} is not there yet; serve makes it"
    if path is not None and _in_use(path):
        return (
            f"{path} is in use by a service, which keeps other processes out; stop that to have its content looked at"
        )

    async def opened() -> None:
        await (await open_store(url)).close()

    asyncio.run(opened())
    return f"{'the database' if path is None else path} can be opened"


def _in_use(path: Path) -> bool:
    from comity.store.sqlite.lock import Lock

    try:
        Lock(path).release()
    except StoreError as error:
        if error.reason == "busy":
            return True
        raise
    return False


def _postgres(url: str) -> Iterator[Finding]:
    """Yield what a Postgres store's server makes one look at; that it cannot be opened is told already."""
    if not url.startswith("postgres") or find_spec("asyncpg") is None:
        return
    from comity.store.postgres.doctor import Health, warnings
    from comity.store.postgres.store import PostgresStore

    async def asked() -> Health:
        store = await PostgresStore.open(url)
        try:
            return await store.health()
        finally:
            await store.close()

    with suppress(ComityError):
        found = asyncio.run(asked())
        yield "ok", f"Postgres {found.server}, {found.round_trip / 1e6:.1f} ms away"
        for text in warnings(found):
            yield "warning", f"Postgres: {text}"


def _hosts(hosts: dict[str, Any]) -> str:
    from comity.policy.host_rules import HostRules

    HostRules(None, hosts)  # two names that mean one host are told by all of them together
    return f"{len(hosts)} with limits of their own in the configuration"


def _tokens(settings: dict[str, Any]) -> str:
    return (
        "only programs on this machine are let in" if tokens_of(settings) is None else f"from {settings['token_file']}"
    )


def _secrets(secrets: list[str]) -> str:
    from comity.service.signature import Signer

    if not secrets:
        return "none are sent, as COMITY_CALLBACK_SECRETS is not set"
    Signer(secrets)
    return f"signed with {len(secrets)} secret{'s' if len(secrets) > 1 else ''}"


def _encryption(settings: dict[str, Any]) -> Iterator[Finding]:
    """Yield how headers that hold secrets are stored, and which keys are missed by what waits."""
    if settings["encryption_keys"] and find_spec("cryptography") is None:
        return
    ids = vault_of(settings).ids
    if ids:
        older = f"; {', '.join(ids[1:])} open{'' if ids[2:] else 's'} what is older" if ids[1:] else ""
        yield "ok", f"encryption: headers that hold secrets are stored sealed with the key {ids[0]}{older}"
    else:
        yield (
            "warning",
            (
                "encryption: headers that hold secrets are stored in the clear; to seal them, make a key with "
                "`openssl rand -base64 32` and set it as COMITY_ENCRYPTION_KEYS of every process"
            ),
        )
    with suppress(ComityError, ImportError):  # that the store cannot be opened is told already
        for key, count in sorted(asyncio.run(_missed(settings)).items()):
            told = (
                f"the key {key} is not in COMITY_ENCRYPTION_KEYS, and at least {count} deliveries or schedules need it"
            )
            yield "error", f"encryption: {told}"


async def _missed(settings: dict[str, Any]) -> Counter[str]:
    """Return the ids of keys that are not configured, and how many need each: of the newest deliveries alive, and of all schedules."""
    from comity.service.stores import open_store, sqlite_file
    from comity.store.records import Query

    found, vault = Counter[str](), vault_of(settings)
    path = sqlite_file(settings["store"])
    if path is not None and not path.exists():
        return found
    store = await open_store(settings["store"])
    try:
        for state in ("pending", "retrying"):
            page = await store.deliveries(Query(state=state), None, _LOOKED_AT)
            for each in page.deliveries:
                payload = await store.payload(each.id)
                with suppress(StoreError):  # a row that cannot be read; it fails when it is sent
                    found.update(() if payload is None else vault.missing(payload.headers))
        last = ""
        while schedules := await store.schedules(last):
            for schedule in schedules:
                with suppress(StoreError):
                    found.update(vault.missing(schedule.run.headers))
            last = schedules[-1].id
    finally:
        await store.close()
    return found
