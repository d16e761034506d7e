"""Observer: hands events to the caller's function, which can neither slow nor break a request by failing."""

from __future__ import annotations

import logging
from collections.abc import Callable

from comity.policy.events import Event

Observe = Callable[[Event], object]

log = logging.getLogger("comity")


def observer(observe: Observe | None) -> Observe | None:
    """Return `observe` made safe: what it raises is logged, once per kind of error, and goes no further."""
    if observe is None:
        return None
    seen: set[type[BaseException]] = set()

    def safely(event: Event) -> None:
        try:
            observe(event)
        except Exception as error:
            if type(error) not in seen:
                seen.add(type(error))
                log.exception("on_event raised for a %r event; later ones of this kind are not logged", event.type)

    return safely
