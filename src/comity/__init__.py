"""Call any HTTP API as fast as it lets you, and never faster.

Public names are loaded on first use, so `import comity` starts no event loop machinery and opens no HTTP library.

Example:
    >>> import comity
    >>> comity.Policy(rate="50/5s", concurrency=4).rate[0].max
    50
"""

from __future__ import annotations

# A type checker takes this name for typing.TYPE_CHECKING; importing typing would double the time of `import comity`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from comity.client.accept import Accept as Accept
    from comity.client.async_client import AsyncClient as AsyncClient
    from comity.client.auth import Bearer as Bearer
    from comity.client.cookies import Cookies as Cookies
    from comity.client.download import Downloaded as Downloaded
    from comity.client.fetch import Fetch as Fetch, paced_fetch as paced_fetch
    from comity.client.headers import Headers as Headers
    from comity.client.request import Request as Request
    from comity.client.response import Response as Response
    from comity.client.streamed import (
        BlockingStreamedResponse as BlockingStreamedResponse,
        StreamedResponse as StreamedResponse,
    )
    from comity.client.sync_client import Client as Client
    from comity.client.tls import TLS as TLS
    from comity.client.token_source import TokenSource as TokenSource
    from comity.engine.limiter import Limiter as Limiter
    from comity.engine.stats import HostStats as HostStats, Stats as Stats
    from comity.errors import (
        AuthFailed as AuthFailed,
        BadResponse as BadResponse,
        BadSignature as BadSignature,
        ClientClosed as ClientClosed,
        ComityError as ComityError,
        ConnectFailed as ConnectFailed,
        ConnectionLost as ConnectionLost,
        HostBlocked as HostBlocked,
        InvalidRequest as InvalidRequest,
        Limited as Limited,
        NotSent as NotSent,
        OptionsError as OptionsError,
        QueueFull as QueueFull,
        QueueTimeout as QueueTimeout,
        RateLimited as RateLimited,
        RedirectRefused as RedirectRefused,
        RequestError as RequestError,
        SendFailed as SendFailed,
        StackedRetries as StackedRetries,
        StatusError as StatusError,
        StoreError as StoreError,
        TargetBlocked as TargetBlocked,
        TimedOut as TimedOut,
    )
    from comity.integrations import httpx as httpx, httpx2 as httpx2
    from comity.policy.adaptive import Adaptive as Adaptive
    from comity.policy.attempt import Attempt as Attempt, Timings as Timings
    from comity.policy.backoff import Backoff as Backoff
    from comity.policy.breaker import Breaker as Breaker
    from comity.policy.budget import RetryBudget as RetryBudget
    from comity.policy.events import Event as Event
    from comity.policy.header_names import HeaderNames as HeaderNames
    from comity.policy.hedge import Hedge as Hedge
    from comity.policy.options import Policy as Policy
    from comity.policy.rate import Rate as Rate
    from comity.policy.retry import Retry as Retry, RetryInfo as RetryInfo
    from comity.policy.timeouts import Timeout as Timeout

__version__ = "0.1.0"

_HOMES = {
    "comity.client.accept": ("Accept",),
    "comity.client.async_client": ("AsyncClient",),
    "comity.client.auth": ("Bearer",),
    "comity.client.cookies": ("Cookies",),
    "comity.client.download": ("Downloaded",),
    "comity.client.fetch": ("Fetch", "paced_fetch"),
    "comity.client.headers": ("Headers",),
    "comity.client.request": ("Request",),
    "comity.client.response": ("Response",),
    "comity.client.streamed": ("BlockingStreamedResponse", "StreamedResponse"),
    "comity.client.sync_client": ("Client",),
    "comity.client.tls": ("TLS",),
    "comity.client.token_source": ("TokenSource",),
    "comity.engine.limiter": ("Limiter",),
    "comity.engine.stats": ("HostStats", "Stats"),
    "comity.errors": (
        "AuthFailed",
        "BadResponse",
        "BadSignature",
        "ClientClosed",
        "ComityError",
        "ConnectFailed",
        "ConnectionLost",
        "HostBlocked",
        "InvalidRequest",
        "Limited",
        "NotSent",
        "OptionsError",
        "QueueFull",
        "QueueTimeout",
        "RateLimited",
        "RedirectRefused",
        "RequestError",
        "SendFailed",
        "StackedRetries",
        "StatusError",
        "StoreError",
        "TargetBlocked",
        "TimedOut",
    ),
    "comity.policy.attempt": ("Attempt", "Timings"),
    "comity.policy.backoff": ("Backoff",),
    "comity.policy.breaker": ("Breaker",),
    "comity.policy.budget": ("RetryBudget",),
    "comity.policy.events": ("Event",),
    "comity.policy.header_names": ("HeaderNames",),
    "comity.policy.adaptive": ("Adaptive",),
    "comity.policy.hedge": ("Hedge",),
    "comity.policy.options": ("Policy",),
    "comity.policy.rate": ("Rate",),
    "comity.policy.retry": ("Retry", "RetryInfo"),
    "comity.policy.timeouts": ("Timeout",),
}
_MODULES = {"httpx": "comity.integrations.httpx", "httpx2": "comity.integrations.httpx2"}
"""What needs a library that comity does not bring: it is there when asked for by name, and not among `__all__`."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - the table above owns the names


def __getattr__(name: str) -> object:
    home = _MODULES.get(name) or _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'comity' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(home)
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME_OF, *_MODULES})
