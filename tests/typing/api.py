"""The public names as a type checker sees them: checked by mypy --strict, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import httpx
import httpx2
import msgspec

import comity


@dataclass
class User:
    name: str


class Row(TypedDict):
    name: str


class Record(msgspec.Struct):
    name: str


async def the_client_answers_with_a_typed_response() -> None:
    async with comity.AsyncClient("https://api.example.com", rate="100/min", concurrency=5) as api:
        assert_type(api, comity.AsyncClient)
        answer = await api.get("/users")
        assert_type(answer, comity.Response)
        assert_type(answer.status_code, int)
        assert_type(answer.content, bytes)
        for attempt in answer.attempts:
            assert_type(attempt, comity.Attempt)


async def a_client_is_a_function() -> None:
    fetch = comity.paced_fetch(rate="50/5s", concurrency=2)
    assert_type(await fetch("https://api.example.com/users", method="POST", json=1), comity.Response)
    comity.paced_fetch(rat="50/5s")  # type: ignore[call-arg]
    await fetch("https://api.example.com/users", jsn=1)  # type: ignore[call-arg]


async def drop_ins_are_transports_of_their_library() -> None:
    http = httpx.AsyncClient(transport=comity.httpx.AsyncTransport(rate="50/5s", transport=httpx.AsyncHTTPTransport()))
    assert_type(await http.get("https://api.example.com"), httpx.Response)
    httpx.Client(transport=comity.httpx.Transport(concurrency=2))
    httpx2.Client(transport=comity.httpx2.Transport(concurrency=2))
    comity.httpx.Transport(rat="50/5s")  # type: ignore[call-arg]
    comity.httpx.Transport(transport=httpx.AsyncHTTPTransport())  # type: ignore[arg-type]


async def an_answer_becomes_the_type_that_is_named(api: comity.AsyncClient) -> None:
    assert_type(await api.get("/users", into=list[User]), list[User])
    assert_type(await api.get("/rows", into=list[Row]), list[Row])
    assert_type(await api.post("/records", json={"name": "a"}, into=Record), Record)
    assert_type(await api.request("GET", "/counts", into=dict[str, int]), dict[str, int])
    assert_type(await api.get("/user", into=User | None), Any)
    assert_type((await api.get("/users")).into(list[User]), list[User])
    await api.get("/users", into=User, priorty=1)  # type: ignore[call-overload]


def the_synchronous_client_has_the_same_types() -> None:
    with comity.Client("https://api.example.com", rate="100/min", concurrency=5) as api:
        assert_type(api, comity.Client)
        assert_type(api.get("/users"), comity.Response)
        assert_type(api.get("/users", params={"page": 1}, into=list[User]), list[User])
        assert_type(api.post("/records", json={"name": "a"}, into=Record), Record)
        assert_type(api.request("GET", "/counts", into=dict[str, int]), dict[str, int])
        assert_type(api.with_options(priority=9), comity.Client)
        assert_type(list(api.map(["/1"])), list[comity.Response])
        for answer in api.map(["/1"], errors="return"):
            assert_type(answer, comity.Response | comity.RequestError)
        assert_type(list(api.map(["/1"], into=User)), list[User])
        assert_type(next(api.map(["/1"], into=User, errors="return", ordered=True)), User | comity.RequestError)
        assert_type(next(api.paginate("/users")), comity.Response)
        assert_type(next(api.paginate("/users", into=list[User])), list[User])
        assert_type(api.poll("/jobs/1", deadline="5min"), comity.Response)
        assert_type(api.poll("/jobs/1", into=Record, priority=1), Record)
        assert_type(api.poll(api.post("/jobs"), into=Record), Record)
        api.get("/users", into=User, priorty=1)  # type: ignore[call-overload]
    comity.Client("https://api.example.com", rat="100/min")  # type: ignore[call-arg]


async def the_limiter_keeps_the_types_of_a_callable() -> None:
    async def twice(number: int) -> int:
        return number * 2

    limiter = comity.Limiter(rate="50/5s", concurrency=10)
    assert_type(await limiter.run(twice, 2), int)
    assert_type(await limiter.run(len, "four"), int)
    assert_type([each async for each in limiter.map(twice, [1, 2])], list[int])
    assert_type([each async for each in limiter.map(len, ["four"])], list[int])
    assert_type(limiter.call(len, "four"), int)
    await limiter.run(twice, "2")  # type: ignore[call-overload]


async def who_asks_and_where_answers_lead() -> None:
    async def fetch() -> tuple[str, float | None]:
        return "token", 3600.0

    async def sign(request: comity.Request) -> dict[str, str]:
        return {"X-Signature": request.method}

    comity.AsyncClient(auth=("user", "password"), cookies=True)
    comity.AsyncClient(auth=sign, cookies=comity.Cookies())
    comity.AsyncClient(auth=7)  # type: ignore[arg-type]
    async with comity.AsyncClient(auth=comity.TokenSource(fetch), follow_redirects=True, max_redirects=3) as api:
        answer = await api.get("/x", auth=comity.Bearer("token"), follow_redirects=False)
        for before in answer.history:
            assert_type(before, comity.Response)
        await api.get("/x", auth=lambda request: {"X-Signature": request.method})
        await api.get("/x", auth=None)


def options_are_values() -> None:
    policy = comity.Policy(
        rate="50/5s", retry=comity.Retry(attempts=3, backoff=comity.Backoff(base=1)), timeout=comity.Timeout(connect=5)
    )
    assert_type(policy, comity.Policy)
    assert_type(comity.Policy.from_env("APP", policy), tuple[comity.Policy, list[str]])


def errors_carry_fields(error: comity.RequestError) -> None:
    for attempt in error.attempts:
        assert_type(attempt, comity.Attempt)
    if isinstance(error, comity.TimedOut):
        assert_type(error.seconds, float)
    if isinstance(error, comity.StatusError):
        assert_type(error.status_code, int)


async def answers_of_many_requests_are_typed(api: comity.AsyncClient) -> None:
    assert_type([each async for each in api.map(["/1", ("POST", "/2"), {"url": "/3"}])], list[comity.Response])
    async for answer in api.map(["/1"], errors="return"):
        assert_type(answer, comity.Response | comity.RequestError)
    assert_type([each async for each in api.map(["/1"], into=User, priority=1)], list[User])
    async for user in api.map(["/1"], into=list[User], errors="return"):
        assert_type(user, list[User] | comity.RequestError)
    assert_type([each async for each in api.map(["/1"], into=User | None)], list[Any])
    api.map(["/1"], into=User, priorty=1)  # type: ignore[call-overload]


async def pages_and_polls_are_typed(api: comity.AsyncClient) -> None:
    async for page in api.paginate("/users", next="json:next", max_pages=3):
        assert_type(page, comity.Response)
    api.paginate("/users", next=lambda page: page.headers.get("x-next"))
    assert_type([each async for each in api.paginate("/users", into=list[User], max_pages=3)], list[list[User]])
    api.paginate("/users", into=User, max_page=3)  # type: ignore[call-overload]
    assert_type(await api.poll("/jobs/1", deadline="5min"), comity.Response)
    assert_type(await api.poll("/jobs/1", into=Record, priority=1), Record)


async def a_view_is_a_client(api: comity.AsyncClient) -> None:
    view = api.with_options(priority=9, retry=lambda info: 0.5 if info.index < 3 else None)
    assert_type(view, comity.AsyncClient)
    assert_type(await view.get("/users", into=list[User]), list[User])
    api.with_options(auth=comity.Bearer("token"), headers={"X-Team": "a"})
    api.with_options(auth=7)  # type: ignore[arg-type]
    api.with_options(rate="1/s")  # type: ignore[call-arg]
    comity.AsyncClient(contact="me@example.com", accept=[comity.Accept("pause:30s", status=403)])
