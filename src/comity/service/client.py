"""ServiceClient: the durable service, asked from Python.

What the service says comes as it says it: JSON objects with the names of its API. Waits between two looks are the service's
own hints, spread (`comity.client.polling`), so that many who wait do not ask together.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from functools import wraps
from inspect import signature
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar
from urllib.parse import quote

import msgspec

from comity.client.async_client import AsyncClient
from comity.client.auth import Bearer
from comity.client.response import Response
from comity.client.stepping import finish, iterate
from comity.client.sync_client import Client
from comity.errors import BadResponse, Limited, RequestError, SendFailed, StatusError
from comity.policy.timeouts import Timeout
from comity.policy.units import Seconds
from comity.service.terms import camel

URL = "http://127.0.0.1:3000"

Json = dict[str, Any]

_AT_ONCE = 500
_DATA, _SEQ = "data: ", "id: "
_AGAIN = 2.0


class AsyncServiceClient:
    """Asks a service, on an event loop.

    Args:
        url: where it is.
        token: what it knows this program by, or None.
        options: of the `AsyncClient` that asks.

    Raises:
        StatusError: of every method: the service refused; the message says why, and `.body` is the problem that it told.

    Example:
        async with AsyncServiceClient() as service:
            made = await service.submit("https://api.example/x", method="POST", body="{}", max_retries=3)
            done = await service.wait(made["id"])
    """

    def __init__(self, url: str = URL, *, token: str | None = None, **options: Any) -> None:
        self._api = AsyncClient(url, auth=_auth(token), **options)

    async def submit(
        self, url: str, /, *, method: str = "POST", idempotency_key: str | None = None, **fields: Any
    ) -> Json:
        """Store a request, to be delivered; when this returns it is on the service's disk.

        Args:
            url: where to.
            method: GET, POST, PUT, PATCH or DELETE.
            idempotency_key: the same submission under the same key is stored once; None makes one, so that this may be sent
                again when its answer got lost.
            fields: others of the API in snake_case: headers, body, policy, max_retries, backoff_ms, run_at, delay, deadline,
                priority, lane, ordered, delivery, signed, callback_url, strict_4xx, timeout_ms; cron, zone and overlap to have
                it delivered again and again.

        Returns:
            id, status and nextPollMs; with cron those of its first run, and schedule.
        """
        told = _submission({"url": url, "method": method} | fields)
        return _object(await _told(self._api.post("/requests", json=told, idempotency_key=idempotency_key or True)))

    async def submit_many(self, submissions: Iterable[Mapping[str, Any]]) -> AsyncGenerator[Json, None]:
        """Store many, some hundred at a time; yield for each, in order, `line` and either `accepted` or `error`.

        Args:
            submissions: each with url, method and fields as for `submit`, `idempotency_key` among them.
        """
        line = 0
        for part in _parts(submissions):
            content = b"".join(msgspec.json.encode(_submission(_keyed(each))) + b"\n" for each in part)
            headers = {"Content-Type": "application/x-ndjson"}
            response = await _told(self._api.post("/requests/batch", content=content, headers=headers, idempotent=True))
            for told in response.content.splitlines():
                line += 1
                yield {**msgspec.json.decode(told), "line": line}

    async def get(self, number: str, *, wait: int | None = None) -> Json:
        """Return how a delivery stands.

        Args:
            number: its id.
            wait: let the service answer when it has ended, after so many seconds (up to 60) at the latest.
        """
        return _object(await _told(self._api.get(_path(number), headers=_prefer(wait))))

    async def wait(self, number: str, *, deadline: Seconds | None = None) -> Json:
        """Return how a delivery ended, looking as often as the service hints.

        Args:
            number: its id.
            deadline: seconds; None waits for ever.

        Raises:
            TimedOut: it did not end in time.
        """
        return _object(await _told(self._api.poll(_path(number), deadline=deadline)))

    async def attempts(self, number: str) -> list[Json]:
        """Return every attempt of a delivery."""
        return _list(await _told(self._api.get(f"{_path(number)}/attempts")), "attempts")

    async def result(self, number: str, *, wait: int | None = None) -> Json:
        """Return what came of a delivery; as long as it has `nextPollMs` there is nothing yet."""
        return _object(await _told(self._api.get(f"{_path(number)}/result", headers=_prefer(wait))))

    async def deliveries(self, /, **filters: str | int) -> AsyncGenerator[Json, None]:
        """Yield deliveries, the newest first.

        Args:
            filters: status, lane, since, until, reason, schedule.
        """
        params: dict[str, Any] = dict(filters)
        while True:
            page = _object(await _told(self._api.get("/requests", params=params)))
            for each in page["requests"]:
                yield each
            if page["cursor"] is None:
                return
            params["cursor"] = page["cursor"]

    async def cancel(self, number: str) -> Json:
        """Cancel a delivery: at once, or after the attempt under way."""
        return await self._operate(number, "cancel")

    async def retry(self, number: str) -> Json:
        """Send a delivery that waits now."""
        return await self._operate(number, "retry")

    async def replay(self, number: str) -> Json:
        """Deliver again what has ended."""
        return await self._operate(number, "replay")

    async def replay_all(self, /, **filters: str) -> int:
        """Replay all that ended and matches `filters`, as for `deliveries`; return how many."""
        count, params = 0, dict[str, Any]()
        while True:
            done = _object(await _told(self._api.post("/requests/replay", params=params, json=filters)))
            count += int(done["count"])
            if done["cursor"] is None:
                return count
            params = {"cursor": done["cursor"]}

    async def schedules(self) -> AsyncGenerator[Json, None]:
        """Yield schedules, the oldest first."""
        params: dict[str, Any] = {}
        while page := _list(await _told(self._api.get("/schedules", params=params)), "schedules"):
            for each in page:
                yield each
            params = {"after": page[-1]["id"]}

    async def schedule(self, number: str) -> Json:
        """Return how a schedule stands."""
        return _object(await _told(self._api.get(_schedule(number))))

    async def change_schedule(self, number: str, /, *, paused: bool) -> Json:
        """Pause or resume a schedule; paused, the run that waits is cancelled."""
        return _object(await _told(self._api.patch(_schedule(number), json={"paused": paused})))

    async def remove_schedule(self, number: str) -> None:
        """End a schedule, and cancel the run that waits."""
        await _told(self._api.delete(_schedule(number)))

    async def lanes(self) -> AsyncGenerator[Json, None]:
        """Yield lanes in order of their keys."""
        params: dict[str, Any] = {}
        while page := _list(await _told(self._api.get("/lanes", params=params)), "lanes"):
            for each in page:
                yield each
            params = {"after": page[-1]["key"]}

    async def change_lane(self, key: str, /, **changes: Any) -> Json:
        """Change a lane: `paused`, `ordered`, `limits` ({"rate": "5/s", "concurrency": 2, "minGapMs": 100}) or `unblock`."""
        return _object(await _told(self._api.patch(f"/lanes/{quote(key, safe='')}", json=changes)))

    async def events(self, *, after: int | None = None) -> AsyncGenerator[Json, None]:
        """Yield what happens, for ever: when the service goes away it is asked again until it is back, and nothing is missed.

        Args:
            after: the number (`seq`) of the last event that was seen; None begins now.

        Raises:
            RequestError: it cannot be reached when this begins, or refuses.
        """
        begun, seq, told = False, after, ""
        while True:
            try:
                async with self._api.stream("GET", "/events", **_following(after)) as response:
                    begun = True
                    async for line in response.iter_lines():
                        if line.startswith(_SEQ):
                            seq = int(line[len(_SEQ) :])
                        elif line.startswith(_DATA):
                            told = line[len(_DATA) :]
                        elif not line:  # the end of an event: one that was cut off before it comes again
                            after = seq
                            if told:
                                yield msgspec.json.decode(told)
                            told = ""
            except RequestError as error:
                if not (begun and _may_be_back(error)):
                    _explain(error)
                    raise
            told = ""
            await self._api._sleep(_AGAIN)  # noqa: SLF001 - as its own polls do: a blocking client's blocks

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _operate(self, number: str, what: Literal["cancel", "retry", "replay"]) -> Json:
        return _object(await _told(self._api.post(f"{_path(number)}/{what}")))


P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[AsyncServiceClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return finish(method(self._asked, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[AsyncServiceClient, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Generator[T, None, None]]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        return iterate(method(self._asked, *args, **kwargs), self)

    # What help and editors show: a for loop is what it is for.
    told = {"return": "Generator[Json, None, None]"}
    call.__annotations__ = method.__annotations__ | told
    call.__signature__ = signature(method).replace(return_annotation=told["return"])  # type: ignore[attr-defined]
    return call


class ServiceClient:
    """Asks a service, from a program without an event loop: the methods of `AsyncServiceClient`, which block.

    Args:
        url: where it is.
        token: what it knows this program by, or None.
        options: of the `Client` that asks.

    Example:
        with ServiceClient() as service:
            made = service.submit("https://api.example/x", body="{}")
            done = service.wait(made["id"], deadline="1h")
    """

    def __init__(self, url: str = URL, *, token: str | None = None, **options: Any) -> None:
        self._client = Client(url, auth=_auth(token), **options)
        self._asked = AsyncServiceClient.__new__(AsyncServiceClient)
        self._asked._api = self._client._api  # noqa: SLF001 - its coroutines never suspend, so nor do those made of them

    submit = _blocking(AsyncServiceClient.submit)
    submit_many = _iterating(AsyncServiceClient.submit_many)
    get = _blocking(AsyncServiceClient.get)
    wait = _blocking(AsyncServiceClient.wait)
    attempts = _blocking(AsyncServiceClient.attempts)
    result = _blocking(AsyncServiceClient.result)
    cancel = _blocking(AsyncServiceClient.cancel)
    retry = _blocking(AsyncServiceClient.retry)
    replay = _blocking(AsyncServiceClient.replay)
    replay_all = _blocking(AsyncServiceClient.replay_all)
    schedules = _iterating(AsyncServiceClient.schedules)
    schedule = _blocking(AsyncServiceClient.schedule)
    change_schedule = _blocking(AsyncServiceClient.change_schedule)
    remove_schedule = _blocking(AsyncServiceClient.remove_schedule)
    lanes = _iterating(AsyncServiceClient.lanes)
    change_lane = _blocking(AsyncServiceClient.change_lane)
    deliveries = _iterating(AsyncServiceClient.deliveries)
    events = _iterating(AsyncServiceClient.events)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _auth(token: str | None) -> Bearer | None:
    return None if token is None else Bearer(token)


def _path(number: str) -> str:
    return f"/requests/{quote(number, safe='')}"


def _schedule(number: str) -> str:
    return f"/schedules/{quote(number, safe='')}"


def _prefer(wait: int | None) -> dict[str, str]:
    return {} if wait is None else {"Prefer": f"wait={wait}"}


def _following(after: int | None) -> Any:
    # Silence is filled every few seconds, and the stream as a whole has no end.
    return {"headers": {} if after is None else {"Last-Event-ID": str(after)}, "timeout": Timeout(idle=60.0)}


def _may_be_back(error: RequestError) -> bool:
    """Return whether a service that was there may be so again, as after a restart."""
    if isinstance(error, StatusError):
        return error.status_code >= 500
    return isinstance(error, SendFailed | BadResponse | Limited)


async def _told(asked: Awaitable[Response]) -> Response:
    try:
        return await asked
    except StatusError as error:
        _explain(error)
        raise


def _explain(error: RequestError) -> None:
    """Let the message of a refusal say why, as the service told: it writes no secrets there."""
    if not isinstance(error, StatusError):
        return
    try:
        problem = msgspec.json.decode(error.response.content, type=_Problem)
    except msgspec.MsgspecError:  # not of the service, but of what stands before it
        return
    field = f"{problem.field}: " if problem.field and problem.field not in problem.detail else ""
    error.args = (f"{error}: {field}{problem.detail}", *error.args[1:])


class _Problem(msgspec.Struct, frozen=True):
    detail: str
    field: str | None = None


def _submission(fields: Mapping[str, Any]) -> Json:
    return {camel(name): value for name, value in fields.items()}


def _keyed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"idempotency_key": secrets.token_hex(16)} | dict(fields)


def _parts(submissions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], ...]]:
    left = iter(submissions)
    while part := tuple(islice(left, _AT_ONCE)):
        yield part


def _object(response: Response) -> Json:
    told = response.json()
    if not isinstance(told, dict):
        raise response.bad(f"{response.line}, but what it says is no answer of this service")
    return told


def _list(response: Response, name: str) -> list[Json]:
    told = _object(response).get(name)
    if not isinstance(told, list):
        raise response.bad(f"{response.line}, but what it says is no answer of this service")
    return told
