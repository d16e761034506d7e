"""Service: durable delivery of requests for programs in any language."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from comity.service.client import AsyncServiceClient as AsyncServiceClient, ServiceClient as ServiceClient

__all__ = ["AsyncServiceClient", "ServiceClient"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'comity.service' has no attribute {name!r}")
    from comity.service import client

    return getattr(client, name)
