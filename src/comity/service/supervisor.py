"""Supervisor: keeps the parts of a service running.

One that fails is told and started anew, and one that goes on failing ends the service, loudly: a service without its worker
would only seem to work. An outage of the store is no failure: whoever cannot bear it is started anew until it is over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from comity.service.log import log
from comity.service.outage import Outage, passes

RESTARTS = 5
"""So often a part may fail ..."""

WITHIN = 60.0
"""... within so many seconds."""

_LONGEST_REST = 5.0

_AWAY = 0.5
"""So many seconds after a refusal of the store a part is started anew."""


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors that a group, or one inside it, holds; of any other error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in leaves(each)]


class Supervisor:
    """Runs parts side by side.

    Args:
        parts: what to run, by name; one that returns is done.
        restarts, within: how often each may fail within so many seconds.
        rest: seconds before a part is started anew the first time; it doubles with each failure that is not forgotten.
    """

    def __init__(
        self,
        parts: Mapping[str, Callable[[], Awaitable[None]]],
        *,
        restarts: int = RESTARTS,
        within: float = WITHIN,
        rest: float = 0.1,
    ) -> None:
        self._parts = parts
        self._restarts, self._within, self._rest = restarts, within, rest

    async def run(self) -> None:
        """Run until every part is done.

        Raises:
            ExceptionGroup: a part went on failing; the others were cancelled.
        """
        async with asyncio.TaskGroup() as group:
            for name, part in self._parts.items():
                group.create_task(self._keep(name, part), name=name)

    async def _keep(self, name: str, part: Callable[[], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        failures: deque[float] = deque()
        outage = Outage(f"part {name}")
        while True:
            began = loop.time()
            try:
                await part()
            except Exception as error:
                if passes(error):
                    if loop.time() - began > _LONGEST_REST:  # it had begun to work in between: this is another one
                        outage = Outage(f"part {name}")
                    outage.bear(error)
                    await asyncio.sleep(_AWAY)
                    continue
                failures.append(loop.time())
                while failures[0] <= failures[-1] - self._within:
                    failures.popleft()
                if len(failures) > self._restarts:
                    log.critical(
                        "part %s failed %d times in %g s and ends the service", name, len(failures), self._within
                    )
                    raise
                log.exception("part %s failed and is started anew: %s", name, error)
                await asyncio.sleep(min(_LONGEST_REST, self._rest * 2 ** (len(failures) - 1)))
            else:
                return
