"""Forms: fields and files, as browsers send them, the same on every attempt."""

from __future__ import annotations

import hashlib
import io
import random
from email import message_from_bytes, policy
from email.message import Message

import pytest

from comity import AsyncClient, Request, Retry
from comity.client import content
from comity.errors import InvalidRequest
from tests.client.scripted import OK, Scripted, Seen, in_turn, status

URL = "http://api.example/x"


def parts_of(kind: str, body: bytes) -> list[Message]:
    """Read a multipart body with a parser that is not ours."""
    whole = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body, policy=policy.HTTP)
    assert not whole.defects
    return list(whole.iter_parts())


def sent(**options: object) -> tuple[str, bytes]:
    request = Request("POST", URL, **options)
    return request.headers["content-type"], request.content


def described(part: Message) -> tuple[object, ...]:
    disposition = part["content-disposition"]
    return (
        disposition.params.get("name"), disposition.params.get("filename"), part.get_content_type(), part.get_payload(decode=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "body"),
    [
        ({}, b""),
        ({"a": 1, "b": "x y&z", "c": "ä"}, b"a=1&b=x+y%26z&c=%C3%A4"),
        ([("a", "1"), ("a", b"\xff")], b"a=1&a=%FF"),
        ({"a": ["1", 2.5]}, b"a=1&a=2.5"),
    ],
)
def test_fields_alone_are_a_form_in_the_url_coding(data, body):
    """AR-016"""
    assert sent(data=data) == ("application/x-www-form-urlencoded", body)


def test_a_file_is_named_by_its_path_its_tuple_or_its_field(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    with (tmp_path / "a.bin").open("rb") as file:
        files = [
            ("f", file),
            ("g", ("b.csv", "x,y", "text/csv")),
            ("h", b"raw"),
            ("i", (None, b"bare", "application/json")),
        ]
        kind, body = sent(data={"n": "1"}, files=files)
    assert [described(part) for part in parts_of(kind, body)] == [
        ("n", None, "text/plain", b"1"),
        ("f", "a.bin", "application/octet-stream", b"\0\1"),
        ("g", "b.csv", "text/csv", b"x,y"),
        ("h", "h", "application/octet-stream", b"raw"),
        ("i", None, "application/json", b"bare"),
    ]


@pytest.mark.parametrize("name", ['a"; x="b', "a\r\nX-Evil: 1\r\n\r\nb"])
def test_no_name_begins_a_header_or_ends_its_own(name):
    """HI-01"""
    kind, body = sent(data={name: "v"}, files={name: (name, b"c")})
    for part in parts_of(kind, body):
        assert set(part.keys()) <= {"Content-Disposition", "Content-Type"}
    assert b"X-Evil" not in [line.partition(b":")[0] for line in body.split(b"\r\n")]


def test_a_file_is_read_from_its_position_once():
    file = io.BytesIO(b"0123")
    file.seek(2)
    assert Request("PUT", URL, content=file).content == b"23"


async def test_each_attempt_sends_the_same_whole_form():
    """BR-07, PF-028"""
    content = random.Random(7).randbytes(200_000)
    quick = Retry(attempts=2, backoff=lambda info: 0, idempotent="any")
    async with Scripted(in_turn(status(503), OK)) as server, AsyncClient(server.url, retry=quick) as api:
        await api.post("/f", data={"text": "ä"}, files={"file": ("a.bin", io.BytesIO(content))})
        first, second = server.seen
    for seen in (first, second):
        text, file = parts_of(_kind(seen), seen.body)
        assert text.get_payload(decode=True) == "ä".encode()
        assert hashlib.sha256(file.get_payload(decode=True)).digest() == hashlib.sha256(content).digest()
    assert (_kind(first), first.body) == (_kind(second), second.body)


def _kind(seen: Seen) -> str:
    [kind] = seen.all("content-type")
    return kind


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data": {"a": "1"}, "json": {}}, "json and data are both given"),
        ({"files": {"a": b"1"}, "content": b""}, "content and files are both given"),
        ({"data": "a=1"}, "data is a str"),
        ({"data": {"a": None}}, "'a' of the form is None"),
        ({"data": {"a": True}}, "'a' of the form is a bool"),
        ({"data": {"a": {"b": 1}}}, "'a' of the form is a dict"),
        ({"data": {"a": bytearray(b"ab")}}, "'a' of the form is a bytearray"),
        ({"data": {"a": io.BytesIO(b"1\n2\n")}}, r"a BytesIO; .* belongs into files=\{'a': ...\}"),
        ({"data": {1: "a"}}, "named by an int"),
        ({"data": {"a": "\ud800"}}, "surrogate"),
        ({"files": {"a": 5}}, "file 'a' is an int"),
        ({"files": {"a": io.StringIO("x")}}, "open as text"),
        ({"files": {"a": ("x",)}}, "tuple of 1"),
        ({"files": {"a": (5, b"x")}}, "file name that is an int"),
        ({"files": {"a": ("x", b"x", "no type\r\nX: y")}}, "content type that is none"),
        ({"files": {"a": b"1"}, "headers": {"Content-Type": "multipart/form-data"}}, "leave it out"),
        ({"content": io.StringIO("x")}, "open as text"),
        ({"content": (piece for piece in [b"x"])}, "cannot be replayed"),
    ],
)
def test_what_is_no_form_is_refused_before_anything_is_sent(options, says):
    """BR-01, HT-056"""
    with pytest.raises(InvalidRequest, match=says):
        Request("POST", URL, **options)


def test_a_file_that_is_closed_is_said_to_be(tmp_path):
    file = (tmp_path / "f").open("w+b")
    file.close()
    with pytest.raises(InvalidRequest, match="cannot be read"):
        Request("POST", URL, content=file)


def test_what_is_no_file_of_bytes_is_refused():
    class Odd:
        def read(self, size: int) -> list[int]:
            return [size]

    with pytest.raises(InvalidRequest, match="a list instead of bytes"):
        Request("POST", URL, content=Odd())


def test_a_file_over_the_bound_is_refused_by_its_size(monkeypatch):
    monkeypatch.setattr(content, "MOST_READ", 3)
    assert Request("POST", URL, content=io.BytesIO(b"123")).content == b"123"
    begun = io.BytesIO(b"--12345678")
    begun.seek(2)
    with pytest.raises(InvalidRequest, match="content has 8 bytes to send, more than the 3 "):
        Request("POST", URL, content=begun)


def test_of_what_has_no_size_the_error_says_the_least(monkeypatch):
    class Pipe:
        def read(self, size: int) -> bytes:
            return bytes(size)

    monkeypatch.setattr(content, "MOST_READ", 3)
    with pytest.raises(InvalidRequest, match="file 'a' has over 3 bytes to send"):
        Request("POST", URL, files={"a": Pipe()})
