"""Response: what a body means, and what an answer shows."""

from __future__ import annotations

import json

import pytest

from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response
from comity.errors import BadResponse, StatusError
from comity.policy.attempt import Attempt

URL = "http://api.example/x"
JSON = "application/json"


def response(content=b"", content_type=None, *, status=200, method="GET", headers=(), url=URL) -> Response:
    pairs = [*headers, *([("content-type", content_type)] if content_type is not None else [])]
    return Response(status, Headers(pairs), content, request=Request(method, url))


@pytest.mark.parametrize(
    ("content_type", "content", "data"),
    [
        (JSON, b'{"a":[1,2.5,null]}', {"a": [1, 2.5, None]}),
        ("application/json; charset=utf-8", b"1", 1),
        ("APPLICATION/JSON", b"[]", []),
        ("application/problem+json", b'"x"', "x"),
        ("text/plain", b"a", "a"),
        ('text/plain; profile="application/json"', b"{}", "{}"),
        ("application/json-seq", b"\x1e{}\n", b"\x1e{}\n"),
        ("application/atom+xml", b"<a/>", "<a/>"),
        ("application/x-www-form-urlencoded", b"a=1", "a=1"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        (None, "ü".encode(), "ü"),
        ("", b"a", "a"),
        ("application/octet-stream", b"\x00\xff\x80\xc3\x28\x41", b"\x00\xff\x80\xc3\x28\x41"),
        ("image/png", b"\x89PNG", b"\x89PNG"),
    ],
)
def test_data_follows_the_content_type(content_type, content, data):
    """CP-051, CP-052, CP-053, CP-054, HT-021"""
    assert response(content, content_type).data == data


@pytest.mark.parametrize("content_type", [JSON, "text/plain"])
def test_utf_8_is_the_default_and_arrives_exactly(content_type):
    """CP-06"""
    content = '{"n":"ü’日"}'.encode()
    assert response(content, content_type).text == content.decode()
    assert response(content, JSON).data == {"n": "ü’日"}


@pytest.mark.parametrize(("status", "method"), [(204, "DELETE"), (205, "POST"), (304, "GET"), (200, "HEAD")])
def test_where_http_allows_no_content_there_is_none(status, method):
    """CP-01"""
    empty = response(b"", JSON, status=status, method=method)
    assert empty.data is None
    assert empty.json() is None


@pytest.mark.parametrize("content", [b"", b"{", b"<html>", b"NaN", b'"\xff"', b"[" * 100_000])
def test_a_body_that_is_no_json_is_a_bad_response_that_holds_the_answer(content):
    """CP-02"""
    with pytest.raises(BadResponse) as caught:
        _ = response(content, JSON).data
    assert (caught.value.response.status_code, caught.value.response.content) == (200, content)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"{", "is no JSON"),
        (b"\xff", "is no JSON"),
        (b"NaN", "is no JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply to be read"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "is nested too deeply to be read"),
        (b'{"n": ' + b"7" * 5000 + b"}", "holds an integer of 5000 digits; 4300 can be read"),
        (b"[-" + b"7" * 5000 + b"]", "holds an integer of 5000 digits; 4300 can be read"),
    ],
)
def test_what_is_wrong_with_a_body_is_told_as_it_is(content, told):
    """Deep nesting and long integers are JSON by RFC 8259."""
    with pytest.raises(BadResponse) as caught:
        response(content, JSON).json()
    assert f"with a body that {told} ({len(content)} bytes)" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"7" * 4300, int("7" * 4300)),
        (b"[" * 400 + b"]" * 400, json.loads("[" * 400 + "]" * 400)),
        (b"\xef\xbb\xbf{}", {}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'"\\ud800"', "\ud800"),
        (b"1e400", float("inf")),
        (b' {"a":1,"a":2} ', {"a": 2}),
    ],
)
def test_unusual_json_is_read(content, value):
    assert response(content, JSON).json() == value


def test_a_charset_is_honoured_and_an_unknown_one_is_utf_8():
    assert response("ü".encode("latin-1"), "text/plain; charset=ISO-8859-1").text == "ü"
    assert response("ü".encode(), "text/plain; charset=nonsense").text == "ü"
    assert response("ü".encode(), "text/plain; charset=hex").text == "ü"
    assert response('"ü"'.encode("utf-16"), "application/json; charset=utf-16").json() == "ü"


def test_text_never_fails():
    assert response(b"a\xffb", "text/plain").text == "a\ufffdb"
    assert response(b"\xef\xbb\xbfa", "text/plain").text == "a"


def test_binary_content_is_there_whatever_the_type_says():
    """CP-055, CP-062"""
    assert response(b'{"a":1}', JSON).content == b'{"a":1}'


@pytest.mark.parametrize(("status", "ok"), [(199, False), (200, True), (299, True), (300, False), (404, False)])
def test_ok_is_2xx(status, ok):
    """HT-019"""
    assert response(status=status).ok is ok


def test_an_error_status_is_raised_on_request_with_its_fields():
    """CP-080, HT-023"""
    answer = response(b"no", "text/plain", status=503, headers=[("retry-after", "3")])
    answer.retry_after = 3.0
    with pytest.raises(StatusError, match=r"GET http://api\.example/x answered 503 Service Unavailable") as caught:
        answer.raise_for_status()
    error = caught.value
    assert (error.status_code, error.body, error.retryable, error.retry_after) == (503, "no", True, 3.0)
    assert error.headers["Retry-After"] == "3"
    assert error.request is answer.request


@pytest.mark.parametrize("status", [200, 302])
def test_another_status_is_not(status):
    """CP-068"""
    answer = response(status=status)
    assert answer.raise_for_status() is answer


def test_an_error_body_is_text_whatever_its_type():
    """CP-056, CP-04"""
    error = response(b"<html>gone", JSON, status=403).error()
    assert error.body == "<html>gone"


def test_an_error_masks_cookies_even_when_the_answer_shows_them():
    """CP-070, CP-071"""
    answer = response(status=500, headers=[("set-cookie", "sid=S3CR3T"), ("Set-Cookie", "b=S3CR3T")])
    assert answer.headers.get_list("set-cookie") == ["sid=S3CR3T", "b=S3CR3T"]
    error = answer.error()
    assert error.headers.get_list("Set-Cookie") == ["***", "***"]
    assert "S3CR3T" not in json.dumps({**dict(error.headers), "body": error.body, "text": str(error)})


def test_what_it_shows_of_itself_has_no_secret():
    """SC-01"""
    answer = response(b"{", JSON, status=403, url="http://h/x?api_key=SECRET123&x=1")
    with pytest.raises(BadResponse) as caught:
        answer.json()
    shown = f"{answer!r} {answer.error()} {answer.error()!r} {caught.value!r}"
    assert "SECRET123" not in shown
    assert "x=1" in shown
    assert "403" in shown


def test_an_unknown_status_has_no_phrase():
    assert (response(status=299).reason, response(status=404).reason) == ("", "Not Found")


def test_an_answer_as_plain_values_holds_no_secret_and_of_its_body_the_size():
    """CP-070, SC-01: whatever the request asked to see."""
    moved = response(status=302, headers=[("Location", "/x?token=S3CR3T")], url=f"{URL}?key=S3CR3T")
    cookies = [("Set-Cookie", "sid=S3CR3T"), ("Via", "a"), ("via", "b"), ("X-Note", "http://me:S3CR3T@h/")]
    answer = response(b'"S3CR3T"', JSON, headers=cookies, url="http://me:S3CR3T@api.example/x?sig=S3CR3T")
    answer.history, answer.attempts = (moved,), (Attempt(number=1, started_at=0.0, waited=0.0, status=200),)
    row = json.loads(json.dumps(answer.as_dict()))
    assert "S3CR3T" not in json.dumps(row)
    assert (row["method"], row["url"]) == ("GET", f"{URL}?sig=***")
    assert (row["status_code"], row["size"], row["retry_after"]) == (200, 8, None)
    assert (row["headers"]["via"], row["headers"]["set-cookie"]) == (["a", "b"], ["***"])
    assert [each["number"] for each in row["attempts"]] == [1]
    assert [each["headers"]["location"] for each in row["history"]] == [["/x?token=***"]]
    assert row["timings"]["total"] == 0
