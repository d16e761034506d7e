"""Tools for testing programs that use comity: a virtual clock, a scripted transport, a real upstream, a suite for stores.

Names are loaded on first use, so a test that needs one of them pays for no other.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from comity.testing.conformance import StoreConformance as StoreConformance
    from comity.testing.model import Model as Model
    from comity.testing.scripted_transport import Answer as Answer, ScriptedTransport as ScriptedTransport
    from comity.testing.upstream import Upstream as Upstream
    from comity.testing.virtual_clock import VirtualClock as VirtualClock

_HOMES = {
    "Answer": "comity.testing.scripted_transport",
    "Model": "comity.testing.model",
    "ScriptedTransport": "comity.testing.scripted_transport",
    "StoreConformance": "comity.testing.conformance",
    "Upstream": "comity.testing.upstream",
    "VirtualClock": "comity.testing.virtual_clock",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - the table above owns the names


def __getattr__(name: str) -> object:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module 'comity.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
