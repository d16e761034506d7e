"""RowParser: what a line may hold, and how a line that cannot be used is told."""

from __future__ import annotations

import json

import pytest

from comity.bulk.body import BodyTemplate
from comity.bulk.rows import Invalid, Row, RowParser
from comity.bulk.template import UrlTemplate
from comity.errors import OptionsError

URL = "http://api.example.com/x"


def parse(value, **options) -> Row | Invalid:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return RowParser(**options).parse(3, data)


@pytest.mark.parametrize("line", [URL.encode(), f'  "{URL}" '.encode(), f'{{"url":"{URL}"}}'.encode()])
def test_an_object_a_quoted_and_a_bare_url_are_the_same_request(line):
    row = parse(line)
    assert isinstance(row, Row)
    assert (row.line, row.id, row.url, row.host, row.method) == (3, 3, URL, "api.example.com", "GET")


def test_every_field_is_taken():
    row = parse(
        {
            "url": URL,
            "id": "a",
            "method": "put",
            "headers": {"X-A": "1"},
            "params": {"q": [1, "b"]},
            "json": {"n": 1.10},
            "priority": 2,
            "cost": {"tokens": 1200},
            "idempotent": False,
        }
    )
    assert isinstance(row, Row)
    assert (row.id, row.method, row.params, row.priority) == ("a", "PUT", {"q": [1, "b"]}, 2)
    assert (row.cost, row.idempotent) == ({"tokens": 1200}, False)
    assert row.headers == {"X-A": "1", "content-type": "application/json"}


def test_json_is_sent_byte_for_byte_as_it_stands():
    row = parse(b'{"url":"http://a/","json":{"big": 12345678901234567890123, "f": 1.10}}')
    assert isinstance(row, Row)
    assert row.content == b'{"big": 12345678901234567890123, "f": 1.10}'


@pytest.mark.parametrize(
    ("body", "content"), [("h\u00e9", b"h\xc3\xa9"), ({"base64": "AP+A"}, b"\x00\xff\x80"), ("", b"")]
)
def test_a_body_is_text_or_base64(body, content):
    row = parse({"url": URL, "body": body})
    assert isinstance(row, Row)
    assert row.content == content


def test_null_is_as_good_as_absent():
    row = parse(dict.fromkeys(("id", "method", "headers", "params", "json", "body", "cost"), None) | {"url": URL})
    assert isinstance(row, Row)
    assert (row.id, row.method, row.content, row.cost) == (3, "GET", None, 1)


def test_a_rows_own_header_replaces_the_common_one_whatever_its_case():
    row = parse({"url": URL, "headers": {"x-a": "own"}}, headers={"X-A": "common", "X-B": "2"})
    assert isinstance(row, Row)
    assert row.headers == {"X-B": "2", "x-a": "own"}


@pytest.mark.parametrize(
    ("line", "field", "says"),
    [
        (b"not json", None, "neither a JSON object nor a URL"),
        (b'{"url": ', None, "not JSON"),
        (b'{"url": "http://a/"} x', None, "not JSON"),
        (b'{"url": "http://a/", "json": ' + b"[" * 100_000, None, "not JSON"),
        (b"[1]", None, "array"),
        (b"\xff\xfe", None, "not UTF-8 (byte 1)"),
        (b'{"url":"http://a/","json":"\xff"}', None, "not UTF-8"),
        ({"id": 1}, "url", "missing"),
        ({"url": ""}, "url", "missing"),
        ({"url": 5}, "url", "Expected str"),
        ({"url": "ftp://a/"}, "url", "ftp"),
        ({"url": "/path"}, "url", "no scheme and host"),
        ({"url": "http:///x"}, "url", "no host"),
        ({"url": "http://h:99999/"}, "url", "port"),
        ({"url": "http://[::1/"}, "url", "host"),
        ({"url": "http://a/b\tc"}, "url", "control character"),
        ({"url": "http://a/\r\nX: 1"}, "url", "control character"),
        ({"url": URL, "method": "GE T"}, "method", "no HTTP method"),
        ({"url": URL, "method": 1}, "method", "Expected str"),
        ({"url": URL, "headers": {"X": 1}}, "headers", "Expected str"),
        ({"url": URL, "headers": {"X": "a\r\nY: b"}}, "headers", "CR, LF and NUL"),
        ({"url": URL, "headers": {"X Y": "a"}}, "headers", "no token"),
        ({"url": URL, "priority": 10}, "priority", "0 up to 9"),
        ({"url": URL, "priority": 2.5}, "priority", "Expected int"),
        ({"url": URL, "cost": -1}, "cost", "0 or more"),
        ({"url": URL, "cost": True}, "cost", "Expected int"),
        ({"url": URL, "json": 1, "body": "x"}, "body", "exclude each other"),
        ({"url": URL, "body": {"b64": "x"}}, "body", "base64"),
        ({"url": URL, "body": {"base64": "?"}}, "body", "cannot be decoded"),
        ({"url": URL, "idempotent": "yes"}, "idempotent", "Expected bool"),
        ({"url": URL, "boddy": "x"}, "boddy", "did you mean 'body'"),
        ({"url": URL, "zzzzzz": "x"}, "zzzzzz", "the fields are url, id"),
    ],
)
def test_a_line_that_is_no_request_names_line_and_field(line, field, says):
    """BK-05, HI-01, UH-03: nothing is raised."""
    found = parse(line)
    assert isinstance(found, Invalid)
    assert (found.line, found.field) == (3, field)
    assert "line 3" in found.message
    assert says in found.message
    if field:
        assert f"field {field}" in found.message


@pytest.mark.parametrize("more", [{"cost": 1.5}, {"boddy": 1}, {"priority": 12}])
def test_a_wrong_field_leaves_a_row_its_name_and_address(more):
    found = parse({"id": "a", "url": URL, "method": "PUT"} | more)
    assert isinstance(found, Invalid)
    assert (found.id, found.url, found.method) == ("a", URL, "PUT")


def test_hosts_that_differ_in_their_last_letter_are_told_apart():
    parser = RowParser()
    urls = [
        "http://a.co",
        "http://a.cm",
        "http://a.co/",
        "http://a.cm/",
        "http://a.co:81/",
        "http://a.co?b=http://a.cm/",
    ]
    assert [parser.parse(1, url.encode()).host for url in urls] == ["a.co", "a.cm", "a.co", "a.cm", "a.co:81", "a.co"]


def test_every_url_of_a_known_host_is_still_checked():
    parser = RowParser()
    parser.parse(1, b"http://a/x")
    assert isinstance(parser.parse(2, b'"http://a/x\\ty"'), Invalid)


def test_a_url_that_cannot_be_read_does_not_repeat_its_password():
    """SC-05"""
    for url in ("http://k:S3CR@ho st:80", "http://k:S3CR@[::1", "http://k:S3CR@h:99999"):
        found = parse({"url": url})
        assert isinstance(found, Invalid)
        assert "S3CR" not in found.message


def test_an_object_may_hold_a_templates_columns():
    row = parse({"user": "a/b", "id": 7}, template=UrlTemplate("http://api/{user}/{id}"))
    assert isinstance(row, Row)
    assert (row.url, row.id) == ("http://api/a%2Fb/7", 7)


@pytest.mark.parametrize("options", [{"id_column": "sku"}, {"template": UrlTemplate("http://api/{sku}")}])
def test_the_json_of_an_object_stays_as_it_was_written_whatever_else_is_named(options):
    row = parse(
        b'{"url": "http://api/1", "sku": "A", "json": {"n": 1.10, "big": 123456789012345678901234567890}}', **options
    )
    assert isinstance(row, Row)
    assert row.content == b'{"n": 1.10, "big": 123456789012345678901234567890}'


@pytest.mark.parametrize("own", [{"json": {"n": 7}}, {"body": "7"}, {"params": {"n": 7}}, {"n": 7}])
def test_rows_may_share_a_url_and_differ_in_what_they_send(own):
    body = BodyTemplate("{n}", "--body") if "n" in own else None
    row = parse(own, template=UrlTemplate("http://api/rows"), body=body)
    assert isinstance(row, Row)
    assert row.url == "http://api/rows"


@pytest.mark.parametrize("body", [None, BodyTemplate("same", "--body")])
def test_a_row_that_would_be_the_same_request_as_every_other_is_invalid(body):
    parser = RowParser(template=UrlTemplate("http://api/rows"), body=body)
    for found in (parser.parse(1, b'{"id": 7}'), parser.from_columns(1, 1, {"id": "7"})):
        assert isinstance(found, Invalid)
        assert found.message == "line 1: --url names no column, and the row has no params and no body of its own"


def test_a_column_that_an_object_lacks_is_told():
    found = parse({"id": 7}, template=UrlTemplate("http://api/{user}"))
    assert isinstance(found, Invalid)
    assert found.field == "user"


@pytest.mark.parametrize(
    "text",
    [
        "http://a/{}",
        "htp://a/{x}",
        "a/{x}",
        "http:///{x}",
        "http://a:99999/{x}",
        "http://a/{x!r}",
        "http://a/{x:5}",
        "http://a/{x.y}",
        "http://a/{x",
    ],
)
def test_a_template_takes_names_of_columns_alone(text):
    with pytest.raises(OptionsError, match="--url"):
        UrlTemplate(text)


@pytest.mark.parametrize("text", ["http://u:SECRET@h/{", "htp://u:SECRET@h/{x}", "http://h/{x!r}?api_key=SECRET"])
def test_a_wrong_template_is_told_without_its_secrets(text):
    """SC-05"""
    with pytest.raises(OptionsError, match="--url") as caught:
        UrlTemplate(text)
    assert "SECRET" not in str(caught.value)


def test_a_template_encodes_values_whole():
    """PE-01"""
    assert (
        UrlTemplate("http://a/{x}?q={y}&b={{}}").fill({"x": "a/b", "y": "c&d=é%"})
        == "http://a/a%2Fb?q=c%26d%3D%C3%A9%25&b={}"
    )


def columns(values, **options) -> Row | Invalid:
    return RowParser(**options).from_columns(3, 10, {"url": URL} | values)


def test_columns_named_like_fields_are_those_fields():
    row = columns(
        {
            "method": "put",
            "json": '{"n": 1.10}',
            "headers": '{"X-A": "1"}',
            "params": '{"q": [1, "b"]}',
            "priority": "2",
            "cost": '{"tokens": 1200}',
            "idempotent": "FALSE",
        }
    )
    assert isinstance(row, Row)
    assert (row.method, row.content, row.params, row.priority) == ("PUT", b'{"n": 1.10}', {"q": [1, "b"]}, 2)
    assert (row.cost, row.idempotent) == ({"tokens": 1200}, False)
    assert row.headers == {"X-A": "1", "content-type": "application/json"}


def test_an_empty_column_is_as_good_as_none():
    row = columns(dict.fromkeys(("method", "json", "body", "headers", "params", "priority", "cost", "idempotent"), ""))
    assert isinstance(row, Row)
    assert (row.method, row.content, row.priority, row.cost) == ("GET", None, 5, 1)


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("json", "{x", "not JSON"),
        ("headers", "X-A: 1", "not JSON"),
        ("headers", '{"X": 1}', "Expected str"),
        ("priority", "high", "not JSON"),
        ("priority", "12", "0 up to 9"),
        ("cost", "1.5", "Expected int"),
        ("idempotent", "maybe", "not JSON"),
    ],
)
def test_a_column_that_holds_something_else_is_told(field, text, says):
    found = columns({field: text})
    assert isinstance(found, Invalid)
    assert found.field == field
    assert says in found.message


def test_a_body_template_fills_rows_without_a_body_and_posts_them():
    template = BodyTemplate('{"sku": "{sku}", "n": {n}}', "--json")
    for row in (columns({"sku": "a", "n": "3"}, body=template), parse({"url": URL, "sku": "a", "n": 3}, body=template)):
        assert isinstance(row, Row)
        assert (row.method, row.content) == ("POST", b'{"sku": "a", "n": 3}')
        assert row.headers == {"content-type": "application/json"}
    own = parse({"url": URL, "body": "mine", "method": "PUT"}, body=template)
    assert isinstance(own, Row)
    assert (own.method, own.content) == ("PUT", b"mine")
    named = columns({"sku": "a", "n": "3"}, body=template, method="PATCH")
    assert isinstance(named, Row)
    assert named.method == "PATCH"


@pytest.mark.parametrize(
    ("values", "says"),
    [({"n": "3"}, "'sku' of the --json template is missing"), ({"sku": "a", "n": "x"}, "no JSON value")],
)
def test_a_row_that_cannot_fill_a_body_is_told(values, says):
    found = columns(values, body=BodyTemplate('{"sku": "{sku}", "n": {n}}', "--json"))
    assert isinstance(found, Invalid)
    assert says in found.message


def test_a_column_or_field_can_be_the_id():
    table, lines = columns({"sku": "A-1", "id": "7"}, id_column="sku"), parse({"url": URL, "sku": 5}, id_column="sku")
    assert isinstance(table, Row)
    assert isinstance(lines, Row)
    assert (table.id, lines.id) == ("A-1", 5)
    wrong = parse({"url": URL, "sku": 5, "boddy": 1}, id_column="sku")
    assert isinstance(wrong, Invalid)
    assert wrong.field == "boddy"


def test_rows_without_a_cost_have_the_common_one():
    parser = RowParser(cost={"tokens": 1200})
    rows = [parser.parse(1, line) for line in (b'{"url": "http://x.test"}', b'{"url": "http://x.test", "cost": 3}')]
    assert [row.cost for row in rows] == [{"tokens": 1200}, 3]
