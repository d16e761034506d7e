"""Request: what cannot be sent is refused at once, what can is frozen."""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import dataclass

import pytest

from comity.client.codec import request_head
from comity.client.headers import Headers
from comity.client.request import Request
from comity.errors import InvalidRequest, NotSent

URL = "http://api.example/x"


def head(request: Request) -> list[str]:
    return request_head(request).decode().split("\r\n")


def test_the_head_has_host_first_then_the_headers_as_written():
    request = Request("get", f"{URL}?b=1", headers={"X-Odd-CASE": "1", "accept": "a/b"})
    assert head(request) == ["GET /x?b=1 HTTP/1.1", "Host: api.example", "X-Odd-CASE: 1", "accept: a/b", "", ""]


@pytest.mark.parametrize("value", ["a\r\nY: b", "a\nb", "a\rb", "a\0b", "\x7f", "a\x0bb"])
def test_a_header_value_with_a_control_character_is_refused_naming_the_header(value):
    """HI-01, CP-078"""
    with pytest.raises(InvalidRequest, match="header X-Key holds a control") as caught:
        Request("GET", URL, headers={"X-Key": value})
    assert isinstance(caught.value, NotSent)
    assert value not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a:", "ä", "a\r\nb", "a\0", "(x)"])
def test_a_header_name_that_is_no_token_is_refused(name):
    """HI-01"""
    with pytest.raises(InvalidRequest, match="header name"):
        Request("GET", URL, headers={name: "1"})


@pytest.mark.parametrize("value", ["h\r\nZ: 1", "a b", "", "a/b", "a,b", "u@h", "h:port"])
def test_a_host_header_is_one_host(value):
    """HI-01"""
    with pytest.raises(InvalidRequest, match=r"header (h|H)ost"):
        Request("GET", URL, headers={"Host": value})


def test_a_host_header_of_the_caller_stands_once():
    assert [line for line in head(Request("GET", URL, headers={"Host": "other:81"})) if "ost" in line] == [
        "Host: other:81"
    ]


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"Transfer-Encoding": "chunked"}, "transfer-encoding"),
        ({"Upgrade": "h2c"}, "upgrade"),
        ({"Connection": "upgrade"}, "connection"),
        ({"Content-Length": "5"}, "content-length"),
        ([("Host", "a"), ("host", "b")], "host"),
        ({"X": 1}, "X is an int"),
        ({"X": "\ud800"}, "X holds half"),
        ({1: "a"}, "header name"),
    ],
)
def test_headers_that_would_break_the_framing_or_have_no_text_are_refused(headers, named):
    with pytest.raises(InvalidRequest, match=named):
        Request("POST", URL, headers=headers, content=b"four")


def test_a_true_content_length_is_sent_once():
    request = Request("POST", URL, headers={"content-length": "4"}, content=b"four")
    assert [line for line in head(request) if "ength" in line] == ["Content-Length: 4"]


@pytest.mark.parametrize("method", ["", "GE T", "GET\r\n", "GÉT", "CONNECT", "connect", None])
def test_a_method_that_is_no_token_or_a_tunnel_is_refused(method):
    with pytest.raises(InvalidRequest, match="method"):
        Request(method, URL)


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "sent"),
    [({"a": 1}, b'{"a":1}'), ([1, "ü"], '[1,"ü"]'.encode()), (Point(2), b'{"x":2}'), (False, b"false"), (0, b"0")],
)
def test_json_is_encoded_and_says_so(value, sent):
    """CP-057, HT-022"""
    request = Request("POST", URL, json=value)
    assert (request.content, request.headers["content-type"]) == (sent, "application/json")


def test_a_content_type_of_the_caller_stands_once():
    """BR-03"""
    request = Request("POST", URL, json={}, headers={"content-type": "application/vnd.api+json"})
    assert request.headers.get_list("Content-Type") == ["application/vnd.api+json"]


@pytest.mark.parametrize(
    ("content", "sent"),
    [("ü", "ü".encode()), (b"\0\xff", b"\0\xff"), (bytearray(b"a"), b"a"), (memoryview(b"b"), b"b"), ("", b"")],
)
def test_text_and_bytes_are_sent_as_they_are(content, sent):
    """CP-058"""
    request = Request("PUT", URL, content=content)
    assert request.content == sent
    assert "content-type" not in request.headers


@pytest.mark.parametrize(("method", "length"), [("GET", []), ("DELETE", []), ("POST", ["Content-Length: 0"])])
def test_no_body_is_announced_only_where_one_is_expected(method, length):
    """CP-058"""
    request = Request(method, URL, content=None)
    assert [line for line in head(request) if "Content-Length" in line] == length


async def chunks():
    yield b"1"


@pytest.mark.parametrize("content", [iter([b"1"]), chunks(), {"a": 1}, 5])
def test_a_body_that_cannot_be_replayed_is_refused(content):
    """BR-01, PF-028"""
    with pytest.raises(InvalidRequest, match="cannot be replayed"):
        Request("PUT", URL, content=content)


def recursive() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [object(), recursive(), {"a": {1, object()}}])
def test_a_value_without_a_json_form_is_refused(value):
    with pytest.raises(InvalidRequest, match="json cannot"):
        Request("POST", URL, json=value)


@pytest.mark.parametrize("value", [math.nan, {"a": [1.5, math.inf]}, [None, -math.inf], {1: math.nan}])
def test_a_number_that_json_does_not_have_is_refused_and_never_sent_as_null(value):
    """RFC 8259, 6"""
    with pytest.raises(InvalidRequest, match="json cannot be encoded: NaN and infinity"):
        Request("POST", URL, json=value)


def test_two_bodies_are_refused():
    with pytest.raises(InvalidRequest, match="content and json"):
        Request("POST", URL, content="a", json=1)


def test_half_a_surrogate_pair_is_no_text():
    with pytest.raises(InvalidRequest, match="surrogate"):
        Request("POST", URL, content="\ud800")


def test_user_information_becomes_basic_authorization_and_leaves_the_url():
    request = Request("GET", "http://me:p%40ss@api.example/x")
    assert (request.headers["Authorization"], request.url) == ("Basic bWU6cEBzcw==", URL)


def test_a_user_without_a_password_in_the_url_is_sent_with_the_colon():
    assert Request("GET", "http://me@api.example/x").headers["Authorization"] == "Basic bWU6"


def test_an_authorization_of_the_caller_wins_over_the_url():
    request = Request("GET", "http://me:pw@api.example/x", headers={"authorization": "Bearer t"})
    assert request.headers.get_list("authorization") == ["Bearer t"]


def test_an_automatic_idempotency_key_differs_between_calls():
    """ID-05"""
    keys = {Request("POST", URL, idempotency_key=True).headers["idempotency-key"] for _ in range(3)}
    assert len(keys) == 3
    assert all(key[0] == key[-1] == '"' and len(key) == 38 for key in keys)


@pytest.mark.parametrize(("given", "sent"), [("abc", '"abc"'), ('"abc"', '"abc"'), ('a"\\', '"a\\"\\\\"')])
def test_a_key_is_sent_as_a_quoted_string(given, sent):
    """ID-05"""
    request = Request("POST", URL, idempotency_key=given)
    assert (request.headers["Idempotency-Key"], request.keyed) == (sent, True)


def test_a_key_header_of_the_caller_stays_as_it_is():
    """ID-05"""
    request = Request("POST", URL, headers={"Idempotency-Key": "mine"}, idempotency_key=True)
    assert (request.headers.get_list("Idempotency-Key"), request.keyed) == (["mine"], True)


@pytest.mark.parametrize("key", ["", "ü", "a\n", "x" * 256, 5, uuid.UUID(int=5)])
def test_a_key_that_no_header_can_carry_is_refused(key):
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        Request("POST", URL, idempotency_key=key)


def test_the_message_on_a_key_of_another_type_names_the_type():
    with pytest.raises(InvalidRequest, match="idempotency_key is a UUID; text is needed"):
        Request("POST", URL, idempotency_key=uuid.UUID(int=5))


def test_a_header_replaces_the_default_of_its_name_and_none_leaves_it_out():
    """CP-032, CP-061"""
    defaults = Headers([("Accept", "*/*"), ("User-Agent", "u"), ("X-Team", "t")])
    request = Request("GET", URL, headers={"accept": "a/b", "user-agent": None, "X-New": "n"}, defaults=defaults)
    assert request.headers.pairs == (("X-Team", "t"), ("accept", "a/b"), ("X-New", "n"))


def test_a_request_cannot_be_changed():
    request = Request("GET", URL)
    with pytest.raises(AttributeError, match="cannot be changed"):
        request.method = "PUT"
    with pytest.raises(AttributeError, match="cannot be changed"):
        del request.method


def test_its_repr_shows_no_secret():
    """SC-01, SC-04"""
    request = Request("GET", "http://u:PW1@h/x?api_key=SECRET&x=1", headers={"Authorization": "Bearer TKN"})
    shown = f"{request!r} {request.headers!r}"
    assert not [secret for secret in ("PW1", "SECRET", "TKN", "dTpQVzE=") if secret in shown]
    assert "x=1" in shown


def test_headers_compare_without_case_and_keep_several_values():
    """CP-069"""
    headers = Headers([("Set-Cookie", "a"), ("X", "1"), ("set-cookie", "b")])
    assert headers["SET-COOKIE"] == "a, b"
    assert headers.get_list("Set-cookie") == ["a", "b"]
    assert headers.multi_items() == [("set-cookie", "a"), ("x", "1"), ("set-cookie", "b")]
    assert list(headers) == ["set-cookie", "x"]
    assert headers.get("y", 5) == 5
    assert 1 not in headers
    assert json.dumps(dict(headers)) == '{"set-cookie": "a, b", "x": "1"}'


def test_headers_are_equal_whatever_their_case():
    assert Headers([("A", "1")]) == Headers([("a", "1")]) == {"a": "1"}
    assert Headers([("A", "1")]) != Headers([("a", "2")])
    assert len({Headers([("A", "1")]), Headers([("a", "1")])}) == 1
