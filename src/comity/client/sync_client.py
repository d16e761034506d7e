"""Client: AsyncClient for programs without an event loop, and for threads.

Nothing of a call is written here a second time: each method is that of `AsyncClient`, its coroutine run in the caller's
thread as `blocking` says.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager
from copy import copy
from functools import partial, wraps
from os import PathLike
from threading import get_ident
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack
from weakref import finalize

from comity.client import blocks
from comity.client.address import Url
from comity.client.async_client import AsyncClient
from comity.client.blocking import BlockingEngine, each_result
from comity.client.far import FarTransport, far_auth
from comity.client.har import Har
from comity.client.loop_thread import LoopThread
from comity.client.mapping import Each
from comity.client.options import RequestOptions
from comity.client.presets import ViewOptions
from comity.client.request import Request
from comity.client.response import Response
from comity.client.stepping import finish, iterate
from comity.client.streamed import BlockingStreamedResponse
from comity.client.terms import Terms
from comity.engine.stats import Stats
from comity.errors import ClientClosed

P = ParamSpec("P")
T = TypeVar("T")


def _built_like(
    init: Callable[Concatenate[AsyncClient, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Give `__init__` the arguments of AsyncClient's, for people and for type checkers."""

    def dressed(own: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return wraps(init)(own)

    return dressed


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return a method of AsyncClient as one that blocks, with the types of every overload."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._thread.check_elsewhere()
        return finish(method(self._api, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Generator[T, None, None]]:
    """Return a method of AsyncClient that yields as one whose values are taken by a plain `for`."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        self._thread.check_elsewhere()
        return iterate(method(self._api, *args, **kwargs), self)

    return call


class Client:
    """A polite HTTP client for threads: `AsyncClient` whose methods block.

    It takes the same arguments. Any number of threads may share one; an event loop that runs in the caller's thread, as in
    a notebook, is left alone. One daemon thread, started by the first request, holds the connections; `close` ends it, and
    so does the end of a client that was forgotten. In a child process a client begins anew.

    `on_event`, backoff functions and the predicates of `retry`, `accept` and `poll` are called in the thread that asks, by
    several threads at once if several ask; for the requests of `map`, in the client's own. What `auth` is made of may be
    coroutines and is called in the client's own thread: a function of the request has to be quick there, and cannot use
    this same client.

    Ctrl-C in a call cancels its request.

    Args:
        base_url: where relative URLs go; its path is kept.
        options: all others of `AsyncClient`.

    Raises:
        OptionsError: a value cannot be used, or there is no such option; the message names the nearest.

    Example:
        with Client("https://api.example", rate="100/min", concurrency=5) as api:
            users = api.get("/users", params={"page": 1}).data
    """

    @_built_like(AsyncClient.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        self._thread = LoopThread("comity-client")
        self._api = _Blocking(self._thread, *args, **options)
        self._life = _Life()
        finalize(self._life, self._thread.abandon, self._api.aclose)

    request = _blocking(AsyncClient.request)
    get = _blocking(AsyncClient.get)
    head = _blocking(AsyncClient.head)
    options = _blocking(AsyncClient.options)
    post = _blocking(AsyncClient.post)
    put = _blocking(AsyncClient.put)
    patch = _blocking(AsyncClient.patch)
    delete = _blocking(AsyncClient.delete)
    poll = _blocking(AsyncClient.poll)
    download = _blocking(AsyncClient.download)
    map = _iterating(AsyncClient.map)
    paginate = _iterating(AsyncClient.paginate)

    @contextmanager
    def stream(
        self, method: str, url: Url, **options: Unpack[RequestOptions]
    ) -> Generator[BlockingStreamedResponse, None, None]:
        """Send a request and hand out its answer when the head is there; see `AsyncClient.stream`.

        Example:
            with api.stream("GET", "/export.csv") as response:
                for line in response.iter_lines():
                    print(line)
        """
        self._thread.check_elsewhere()
        body = finish(self._api._streamed(method, url, options))  # noqa: SLF001 - it is one of us
        blocks.enter(body, self._api._dispatcher, get_ident)  # noqa: SLF001 - likewise
        try:
            yield BlockingStreamedResponse(body)
        except GeneratorExit:  # forgotten: this may be a destructor, which must not wait for the loop
            body.drop()
            raise
        finally:
            finish(body.close())

    def with_options(self, **options: Unpack[ViewOptions]) -> Self:
        """Return a view of this client with other defaults; see `AsyncClient.with_options`."""
        view = copy(self)
        vars(view)["_api"] = self._api.with_options(**options)
        return view

    def har(self, path: str | PathLike[str], *, bodies: bool = False, append: bool = False) -> Har:
        """Return a context manager that records every wire attempt in a HAR 1.2 file; see `AsyncClient.har`."""
        return self._api.har(path, bodies=bodies, append=append)

    def stats(self) -> Stats:
        """Return how many requests wait and run, and the state of every host."""
        return self._api.stats()

    def remember(self) -> None:
        """Write the `memory`, if there is one; see `AsyncClient.remember`."""
        self._api.remember()

    def close(self) -> None:
        """Refuse what waits or comes, let what is on the wire finish, then close the connections and end the thread.

        It may be called again, also while it is under way. A stream whose block its own thread stands in can only be left
        afterwards: it is ended, and reading on in it is a RuntimeError.
        """
        last = None
        try:
            finish(blocks.end_own(self._api._dispatcher, get_ident()))  # noqa: SLF001 - it is one of us
            self._thread.run(self._api.aclose())
        except ClientClosed:  # by another thread
            pass
        except BaseException:  # cut short, as by Ctrl-C: what it did not come to
            last = self._api._dispatcher.wire.aclose  # noqa: SLF001 - likewise
            raise
        finally:
            self._thread.close(last)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._api).replace("<AsyncClient", "<Client", 1)


class _Life:
    """What a client and its views have in common: when the last of them is forgotten, it is."""


class _Blocking(AsyncClient):
    """An AsyncClient whose coroutines block the thread that runs them instead of suspending, unless it is the loop's."""

    def __init__(self, thread: LoopThread, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._thread = thread
        self._engine = BlockingEngine(self._hosts, thread)
        self._dispatcher.transport = FarTransport(self._dispatcher.transport, thread)

    async def _hop(self, terms: Terms, request: Request, at_home: bool = True) -> Response:
        if terms.auth is not None:
            terms.auth = far_auth(terms.auth, self._thread)
        return await super()._hop(terms, request, at_home)

    @property
    def _each(self) -> Each:
        return partial(each_result, self._thread)

    async def _aside(self, work: Callable[[], T]) -> T:
        return work()

    def _where(self) -> object:
        return get_ident()

    async def _sleep(self, seconds: float) -> None:
        await self._thread.reach(super()._sleep(seconds))
