"""Service: the side of durable delivery that works: what was submitted to a store is sent, kept in order and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.transport import Transport
from comity.engine.clock import MONOTONIC, Clock
from comity.errors import OptionsError
from comity.policy.timeouts import Timeout
from comity.policy.units import NS
from comity.service.callbacks import Callbacks
from comity.service.capture import KEPT
from comity.service.disabler import Disabler
from comity.service.errand import PATIENCE, Setting
from comity.service.guard import Guard
from comity.service.log import log
from comity.service.pruner import Pruner
from comity.service.rescuer import Rescuer
from comity.service.scheduler import Scheduler
from comity.service.signature import Signer
from comity.service.supervisor import Supervisor
from comity.service.vault import Vault
from comity.service.worker import Worker, WorkerOptions
from comity.store.base import Store
from comity.store.records import Retention

_AFTERWARDS = 15.0
"""So many seconds beyond the drain the worker has to end by itself."""


class Service:
    """Works on a store while its block lasts.

    Args:
        store: where deliveries are; it stays open.
        guard: whom deliveries may reach; None refuses all but the public internet.
        secrets: of the signatures, the newest first; without any callbacks are left to a service that has some.
        vault: opens what was sealed when it was taken in; None has no key.
        worker: how it works.
        timeout: how long an attempt may take, unless the delivery says so.
        keep: bytes of an answer's body that are kept.
        patience: ns that a claim waits for its turn before it goes back.
        retention: how long things are kept.
        disable_after: seconds of nothing but failures after which a lane is paused; None never does.
        drain: seconds that attempts under way have to end in when the block is left.
        hurried: cuts that short, when it is set.
        transport: what sends; the default one, with the guard.
        clock: what time it is.

    Raises:
        OptionsError: a secret cannot be used, or a number is negative.

    Example:
        async with Service(store, guard=Guard(allow=["10.1.0.0/16"])) as service:
            await service.over()
    """

    def __init__(
        self,
        store: Store,
        *,
        guard: Guard | None = None,
        secrets: Sequence[str] = (),
        vault: Vault | None = None,
        worker: WorkerOptions | None = None,
        timeout: Timeout | None = None,
        keep: int = KEPT,
        patience: int = PATIENCE,
        retention: Retention | None = None,
        disable_after: float | None = None,
        drain: float = 30.0,
        hurried: asyncio.Event | None = None,
        transport: Transport | None = None,
        clock: Clock = MONOTONIC,
    ) -> None:
        for name, value in (("keep", keep), ("patience", patience), ("drain", drain)):
            if value < 0:
                raise OptionsError(name, value, "0 or more")
        options = worker or WorkerOptions()
        signer = Signer(secrets) if secrets else None
        self._transport = transport or AiohttpTransport(guard=guard or Guard())
        self._drain, self._hurried = drain, hurried or asyncio.Event()
        self._setting = Setting(
            store=store,
            transport=self._transport,
            clock=clock,
            timeout=timeout or Timeout(),
            keep=keep,
            patience=patience,
            signer=signer,
            vault=vault or Vault(),
        )
        self._options = options
        self._worker: Worker | None = None
        self._leaving = False
        self._upkeep = {
            "rescuer": Rescuer(store, every=options.lease / 6 / NS).run,
            "pruner": Pruner(store, retention).run,
            "scheduler": Scheduler(store).run,
        }
        if signer is None:  # to read on unsigned would put them behind whoever signs
            log.info("callbacks are left to processes that have COMITY_CALLBACK_SECRETS")
        else:
            self._upkeep["callbacks"] = Callbacks(store).run
        if disable_after is not None:
            self._upkeep["disabler"] = Disabler(store, disable_after).run

    async def __aenter__(self) -> Self:
        self._working = asyncio.create_task(Supervisor({"worker": self._work}).run(), name="worker")
        self._keeping = asyncio.create_task(Supervisor(self._upkeep).run(), name="upkeep")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving = True
        if self._worker is not None:
            self._worker.drain(self._drain)
        hurried = asyncio.create_task(self._hurried.wait())
        try:
            # The worker first: what it says at its end is worth more with the others still there.
            awaited = (self._working, hurried)
            await asyncio.wait(awaited, timeout=self._drain + _AFTERWARDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Cancelled, the worker cuts short what is under way, tells the store so, and gives back the rest.
            for task in (hurried, self._working, self._keeping):
                task.cancel()
            ends = await asyncio.gather(self._working, self._keeping, return_exceptions=True)
            await self._transport.aclose()
        if error is None:
            for end in ends:
                if isinstance(end, Exception):
                    raise end

    async def _work(self) -> None:
        if not self._leaving:
            self._worker = Worker(self._setting, self._options)
            await self._worker.run()

    async def over(self) -> None:
        """Return when a part of it ended for good, which it does not do by itself.

        Raises:
            ExceptionGroup: what that part failed with, again and again.
        """
        done, _ = await asyncio.wait((self._working, self._keeping), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
