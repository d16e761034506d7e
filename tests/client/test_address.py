"""address: what of a URL reaches the wire, and what is refused before anything is sent."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given, strategies as st

from comity.client import address
from comity.errors import InvalidRequest


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("http://api.example", "http://api.example", "/"),
        ("HTTPS://API.Example:443/A/b", "https://api.example", "/A/b"),
        ("http://api.example:8080?x=1#top", "http://api.example:8080", "/?x=1"),
        ("http://[::1]:81/x", "http://[::1]:81", "/x"),
        ("http://127.0.0.1/x", "http://127.0.0.1", "/x"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example", "/%C3%BC"),
        ("http://my_host.internal./x", "http://my_host.internal.", "/x"),
        ("http://h/a b", "http://h", "/a%20b"),
        ("http://h/a/../b//c;d?x[]=1&y={z}|", "http://h", "/a/../b//c;d?x[]=1&y={z}|"),
    ],
)
def test_a_url_is_taken_apart_at_its_authority(url, origin, target):
    parsed = address.parse(url)
    assert (str(parsed.origin), parsed.target) == (origin, target)


def test_a_presigned_query_stays_as_it_is():
    """PE-01"""
    assert address.parse("http://h/f?sig=rX7%2FXCC%2Bw%3D&e=1%3A2.").target == "/f?sig=rX7%2FXCC%2Bw%3D&e=1%3A2."


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("https://.../", "host name"),
        (f"http://{'a' * 64}.example/", "host name"),
        (f"http://{'a.' * 130}example/", "host name"),
        ("http://-a.example/", "host name"),
        ("http://", "no host"),
        ("http:///x", "no host"),
        ("http://:80/x", "no host"),
        ("http://u:p@/x", "no host"),
        ("http://ho st/", "host name"),
        ("http://h:99999/", "port"),
        ("http://h:0/", "port"),
        ("http://h:8o/", "port"),
        ("http://h:²/", "port"),
        ("http://[::1", "IPv6"),
        ("http://[::1]x/", "IPv6"),
        ("http://[::1:2:3:4:5:6:7:8]/", "IPv6"),
        ("http://127.1/", "IPv4"),
        ("http://2130706433/", "IPv4"),
        ("http://0x7f.1/", "IPv4"),
        ("http://127.0.0.01/", "IPv4"),
        ("ftp://h/x", "scheme"),
        ("/x", "no scheme"),
        ("api.example/x", "no scheme"),
        ("localhost:80/x", "no scheme"),
        ("", "no scheme"),
        ("http://a\u200db/", "IDNA"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_naming_the_part(url, part):
    """UH-03, CP-078"""
    with pytest.raises(InvalidRequest, match=part):
        address.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1%25lo\r\nX: 1]/",
        "http://[::1%25lo%0d%0aX:1]/",
        "http://[::1%25]/",
        "http://[fe80::1%25e th0]/",
        "http://[fe80::1%25lo]/",
    ],
)
def test_zone_ids_are_refused(url):
    """UH-05"""
    with pytest.raises(InvalidRequest, match=r"zone id|control"):
        address.parse(url)


@pytest.mark.parametrize("char", [chr(code) for code in (*range(32), 127)])
def test_no_control_character_passes(char):
    """HI-03"""
    with pytest.raises(InvalidRequest, match="control"):
        address.parse(f"http://h/a{char}b")


@pytest.mark.parametrize("half", [chr(0xD800), "\udc00\ud800"])
@pytest.mark.parametrize("url", ["http://{}/", "http://{}:pw@h/", "http://h/{}", "http://h/?a={}", "http://h/#{}"])
def test_half_a_surrogate_pair_in_a_url_is_refused(url, half):
    """RFC 3629, 3: UTF-8 has no surrogates."""
    with pytest.raises(InvalidRequest, match="surrogate"):
        address.parse(url.format(half))


@pytest.mark.parametrize("params", [{"a": "\ud800"}, {"\ud800": "a"}, {"a": ["b", "x\udfff"]}, [("a", "x\udc00y")]])
def test_half_a_surrogate_pair_in_a_parameter_is_refused_naming_it(params):
    with pytest.raises(InvalidRequest, match=r"params\['(a|\\ud800)'\] holds half of a surrogate pair"):
        address.with_params("http://h/", params)


def test_a_whole_surrogate_pair_is_a_character():
    assert address.parse("http://h/\U0001f600").target == "/%F0%9F%98%80"


def test_a_url_of_another_type_is_refused():
    with pytest.raises(InvalidRequest, match="url is a bytes"):
        address.parse(b"http://h/")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["http://k:S3CR@ho st:80", "http://k:S3CR@[::1", "http://k:S3CR@h:99999", "x://k:S3CR@h"]
)
def test_a_refusal_does_not_echo_user_information(url):
    """SC-05"""
    with pytest.raises(InvalidRequest) as caught:
        address.parse(url)
    assert "S3CR" not in str(caught.value)


def test_user_information_is_kept_apart_and_decoded():
    parsed = address.parse("http://me:p%40ss%2Fw@h/x")
    assert (parsed.userinfo, parsed.url) == (b"me:p@ss/w", "http://h/x")


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://H/", "h"),
        ("https://h:443/", "h"),
        ("https://h:80/", "h:80"),
        ("http://[::1]/", "[::1]"),
        ("http://[::1]:8/", "[::1]:8"),
    ],
)
def test_the_limiter_is_named_for_the_host_and_an_unusual_port(url, key):
    assert address.parse(url).origin.key == key


@pytest.mark.parametrize(
    ("base", "url", "joined"),
    [
        ("https://h/v1", "/users", "https://h/v1/users"),
        ("https://h/v1/", "users", "https://h/v1/users"),
        ("https://h", "users?x=1", "https://h/users?x=1"),
        ("https://h/v1", "", "https://h/v1"),
        ("https://h/v1/", "?x=1", "https://h/v1/?x=1"),
        ("https://h/v1", "//evil.example/x", "https://h/v1//evil.example/x"),
        ("https://h", "@evil.example/", "https://h/@evil.example/"),
    ],
)
def test_a_path_goes_under_the_base_and_never_to_another_host(base, url, joined):
    assert address.join(base, url) == joined


@pytest.mark.parametrize(
    ("url", "params", "whole"),
    [
        ("http://h/x", {"q": "a b&c=d/é"}, "http://h/x?q=a%20b%26c%3Dd%2F%C3%A9"),
        ("http://h/x?sig=a%2Fb", {"page": 2}, "http://h/x?sig=a%2Fb&page=2"),
        ("http://h/x?", [("a", 1), ("a", 2)], "http://h/x?a=1&a=2"),
        ("http://h/x#top", {"a": [1, 2.5, None], "b": None, "c": True}, "http://h/x?a=1&a=2.5&c=true#top"),
        ("http://h/x", {}, "http://h/x"),
    ],
)
def test_parameters_are_appended_encoded_and_the_rest_is_not_touched(url, params, whole):
    """AR-016, PE-01"""
    assert address.with_params(url, params) == whole


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1))
def test_what_parameters_say_is_what_a_server_reads(pairs):
    """AR-016"""
    pairs = [
        (name.encode("utf-8", "ignore").decode(), value.encode("utf-8", "ignore").decode()) for name, value in pairs
    ]
    query = address.with_params("http://h/", pairs).partition("?")[2]
    assert parse_qsl(query, keep_blank_values=True) == pairs


@pytest.mark.parametrize("params", [{"a": {"b": 1}}, {"a": b"x"}, [(1, "a")]])
def test_a_parameter_without_a_text_form_is_refused(params):
    with pytest.raises(InvalidRequest, match="params"):
        address.with_params("http://h/", params)


@given(st.text(alphabet=[*"ah0.:@/?#\\[]%& \n\u00fc"], max_size=12))
def test_a_url_that_needs_no_care_reads_as_it_does_with_care(rest):
    """A fragment, which stays here, is what sends any URL the careful way."""
    assert taken(f"http://{rest}") == taken(f"http://{rest}#")


def taken(url):
    try:
        return address.parse(url)
    except InvalidRequest:
        return None


@given(st.text(max_size=30))
def test_every_target_is_one_visible_ascii_word(rest):
    try:
        target = address.parse(f"http://h/{rest}").target
    except InvalidRequest:
        return
    assert target.isascii()
    assert target.isprintable()
    assert " " not in target
