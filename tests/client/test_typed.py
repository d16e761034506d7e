"""Typed: the body of an answer as a value of the caller's type, or an error that names the place."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypedDict

import msgspec
import pytest

from comity.client.async_client import AsyncClient
from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response
from comity.errors import BadResponse, OptionsError, StatusError
from tests.client.scripted import OK, Scripted, answer, in_turn, ok, status

JSON = "Content-Type: application/json"


@dataclass
class User:
    name: str
    age: int


class Row(TypedDict):
    name: str
    age: int


class Record(msgspec.Struct):
    name: str
    age: int
    boss: Record | None = None


class Pair(NamedTuple):
    name: str
    age: int


class Colour(enum.Enum):
    RED = "red"


class Plain:
    pass


@dataclass
class Holder:
    inner: list[Plain]


def response(body, content_type="application/json", code=200, method="GET"):
    headers = Headers([("Content-Type", content_type)])
    return Response(code, headers, body, request=Request(method, "http://h/x?token=SECRET"))


@pytest.mark.parametrize(
    ("body", "into", "value"),
    [
        (b'{"name": "Ann", "age": 3, "more": 1}', User, User("Ann", 3)),
        (b'{"name": "Ann", "age": 3}', Row, {"name": "Ann", "age": 3}),
        (b'{"name": "Ann", "age": 3}', Record, Record("Ann", 3)),
        (b'["Ann", 3]', Pair, Pair("Ann", 3)),
        (b'[{"name": "Ann", "age": 3}]', list[User], [User("Ann", 3)]),
        (b'{"a": {"name": "Ann", "age": 3}}', dict[str, Record], {"a": Record("Ann", 3)}),
        (b"null", User | None, None),
        (b'"red"', Colour, Colour.RED),
        (b"3", Annotated[int, msgspec.Meta(ge=1)], 3),
        (b"3", Annotated[int, msgspec.Meta(extra={"no": "hash"})], 3),
        (b"\xef\xbb\xbf[1]", list[int], [1]),
        (b'["\\ud800"]', list[str], ["\ud800"]),
    ],
)
def test_a_body_becomes_the_type_that_was_named(body, into, value):
    """CP-066"""
    assert response(body).into(into) == value


@pytest.mark.parametrize(
    ("body", "into", "told"),
    [
        (
            b'{"users": [{"name": "a", "age": 1}, {"name": "b", "age": "x"}]}',
            dict[str, list[User]],
            "age: expected int",
        ),
        (b'[{"name": "a", "age": 1}, {"name": "b", "age": "x"}]', list[User], "$[1].age: expected int, got str"),
        (b'{"name": "a"}', Record, "$: object missing required field age"),
        (b"[1, null]", list[int], "$[1]: expected int, got null"),
        (b'"blue"', Colour, "$: invalid enum value 'blue'"),
        (b"", User, "the body is empty"),
        (b"<html>", User, "the body is no JSON"),
        (b"[" * 100_000 + b"]" * 100_000, list, "the body is nested too deeply to be read"),
        (b'["\\ud800", ' + b"7" * 5000 + b"]", list, "the body holds an integer of 5000 digits"),
        (b'{"name": "a", "age": 1', User, "the body is no JSON"),
    ],
)
def test_a_mismatch_names_its_place_in_the_json(body, into, told):
    """CP-066"""
    with pytest.raises(BadResponse) as caught:
        response(body).into(into)
    assert told in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(("code", "method"), [(204, "GET"), (200, "HEAD")])
def test_an_answer_without_content_is_null(code, method):
    assert response(b"", code=code, method=method).into(User | None) is None
    with pytest.raises(BadResponse, match="expected object, got null"):
        response(b"", code=code, method=method).into(User)


def test_a_charset_is_obeyed():
    assert response('"ä"'.encode("latin-1"), "application/json; charset=iso-8859-1").into(str) == "ä"


def test_what_a_server_wrote_is_redacted_and_cut_in_the_message():
    with pytest.raises(BadResponse) as caught:
        response(b'"token=abcdef1234 ' + b"x" * 100_000 + b'"').into(Colour)
    assert "abcdef1234" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("into", [Plain, list[Plain], Holder, "User", 3, list["Nowhere"], list[int | Plain]])  # noqa: F821
async def test_a_type_that_no_json_can_become_is_refused_before_anything_is_sent(into):
    """CP-066, CP-078"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url) as api:
        with pytest.raises(OptionsError) as caught:
            await api.get("/x", into=into)
        assert caught.value.option == "into"
        assert server.connections == 0


async def test_a_call_returns_the_value_and_a_mismatch_carries_the_attempts():
    """CP-066"""
    good, bad = ok(b'[{"name": "Ann", "age": 3}]', JSON), ok(b'[{"name": "Ann", "age": null}]', JSON)
    async with Scripted(in_turn(good, bad)) as server, AsyncClient(server.url) as api:
        assert await api.get("/users", into=list[User]) == [User("Ann", 3)]
        with pytest.raises(BadResponse, match=r"answered 200 OK, but \$\[0\]\.age: expected int, got null") as caught:
            await api.request("GET", "/users", into=list[User])
        assert [each.status for each in caught.value.attempts] == [200]
        assert caught.value.response.content == b'[{"name": "Ann", "age": null}]'


@pytest.mark.parametrize("raise_for", ["never", "error"])
async def test_an_answer_that_is_no_success_has_no_value(raise_for):
    """CP-066"""
    async with (
        Scripted(in_turn(status(404), status(304, body=b""))) as server,
        AsyncClient(server.url, raise_for=raise_for) as api,
    ):
        with pytest.raises(StatusError):
            await api.get("/x", into=User | None)
        with pytest.raises(StatusError):
            await api.get("/x", into=User | None)
