"""redact: nothing that comity shows holds a secret."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from comity import redact

SECRET = "S3CR3T"


@pytest.mark.parametrize(
    "name",
    [
        "api_key", "apikey", "X-API-Key", "key", "access_token", "accessToken", "token", "clientSecret", "password",
        "passwd", "sig", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "Authorization",
        "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Auth-Token", "PHPSESSID", "jwt", "subscription-key",
        "api%5Fkey", "XAUTHTOKEN", "private_key",
    ],
)  # fmt: skip
def test_a_name_that_speaks_of_a_secret_is_secret(name):
    assert redact.is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "page",
        "x",
        "author",
        "Content-Type",
        "Idempotency-Key",
        "Retry-After",
        "keyword",
        "monkey",
        "design",
        "KeyError",
        "e",
    ],
)
def test_an_ordinary_name_is_not(name):
    assert not redact.is_secret(name)


@pytest.mark.parametrize(
    ("given_url", "shown"),
    [
        ("http://u:PW@h/x?page=2", "http://***@h/x?page=2"),
        ("http://u@h", "http://***@h"),
        ("@daily", "@daily"),
        ("@PW@h", "***@h"),
        ("http://h/x?api_key=1&x=1", "http://h/x?api_key=***&x=1"),
        ("http://h/x?x=1;token=1#access_token=9", "http://h/x?x=1;token=***#access_token=***"),
        ("/x?token=1#S3CR3T", "/x?token=***#***"),
        ("http://h/x#a&page=2", "http://h/x#***&page=2"),
        ("http://h/x#", "http://h/x#"),
        ("/x?sig=a%2Fb&e=1%3A2", "/x?sig=***&e=1%3A2"),
        ("http://h/a@b?mail=a@b.c", "http://h/a@b?mail=a@b.c"),
        ("http://h/x?token=", "http://h/x?token="),
        ("http://h/x?token", "http://h/x?token"),
        ("not a url", "not a url"),
        ("http://h/cb?code=4%2F0A&state=x", "http://h/cb?code=***&state=x"),
        ("http://h/x?sas=1&codec=2", "http://h/x?sas=***&codec=2"),
        ("http://h/?next=https%3A%2F%2Fi%2F%3Fpage%3D2", "http://h/?next=https%3A%2F%2Fi%2F%3Fpage%3D2"),
        ("http://h/?next=https%3A%2F%2Fi%2F%3Ftoken%3D9&x=%41", "http://h/?next=https://i/?token%3D***&x=%41"),
        ("http://h/?next=https%253A%252F%252Fi%252F%253Ftoken%253D9", "http://h/?next=https://i/?token%3D***"),
        ("http://h/?next=%2Fcb%3Fcode%3D9", "http://h/?next=/cb?code%3D***"),
        ("http://h/?next=http://u:PW@i/", "http://h/?next=http://***@i/"),
        ("http://h/?next=%2525252541", "http://h/?next=***"),
    ],
)
def test_a_url_keeps_all_but_its_secrets(given_url, shown):
    assert redact.url(given_url) == shown


@pytest.mark.parametrize(
    "broken",
    [
        "http://k:S3CR3T@ho st:80",
        "http://k:S3CR3T@[::1",
        "http://k:S3CR3T@h:99999",
        "http://k:S3CR3T/x@h",
        "http://k:S3CR3T#x@h",
        "http://k:a@S3CR3T@h",
        "http://k:S3CR3T\\x@h",
    ],
)
def test_a_url_that_does_not_parse_shows_no_user_information(broken):
    """SC-05"""
    assert SECRET not in redact.url(broken)
    assert redact.MASK in redact.url(broken)


TOKENS = (
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
    f"ghp_{'a1' * 18}",
    f"glpat-{'a1' * 10}",
    f"xoxb-{'1a' * 10}",
    f"sk_live_{'a1' * 12}",
    f"bot123456789:{'aB' * 17}",
    f"T0000000A/B0000000A/{'aB' * 12}",
)


@pytest.mark.parametrize("token", TOKENS)
def test_a_well_known_kind_of_token_is_hidden_wherever_it_stands(token):
    """SC-01"""
    assert redact.url(f"http://h/{token}/send?x={token}#{token}") == "http://h/***/send?x=***#***"
    assert redact.text(f"got {token}, no more") == "got ***, no more"
    assert redact.headers([("X-Note", token)]) == [("X-Note", "***")]


def test_a_key_that_may_hold_slashes_is_hidden_with_all_of_them():
    assert redact.text(f"with whsec_{'a1/+' * 8}= it") == "with *** it"


def test_secret_header_values_are_masked_and_the_others_are_not():
    pairs = [("Authorization", f"Bearer {SECRET}"), ("X-Page", "2"), ("Location", f"http://h/?token={SECRET}&x=1")]
    assert redact.headers(pairs) == [
        ("Authorization", "***"),
        ("X-Page", "2"),
        ("Location", "http://h/?token=***&x=1"),
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        f"cannot connect to http://u:{SECRET}@h:80/x",
        f"Invalid header Authorization: Bearer {SECRET}, realm=x",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f"headers=[(b'x-api-key', b'{SECRET}')] x-api-key: {SECRET}"[36 + len(SECRET) :],
        f"Cookie: a=b; sid={SECRET}; c=d",
        f'Set-Cookie="sid={SECRET}; Path=/"',
        f"proxy said Basic {SECRET}==",
        f"password={SECRET}",
        f"GET /x?api_key={SECRET}&x=1 HTTP/1.1",
        f"GET /x?code={SECRET}&x=1 HTTP/1.1",
        f"GET /x?next=%2Fa%3Ftoken%3D{SECRET}&x=1 HTTP/1.1",
        f"at http://h/?next=%2Fa%3Ftoken%3D{SECRET}",
    ],
)
def test_a_foreign_text_loses_its_secrets(foreign):
    """SC-01"""
    assert SECRET in foreign
    assert SECRET not in redact.text(foreign)


@pytest.mark.parametrize("name", ["Authentication-Info", "proxy-authentication-info"])
def test_what_an_answer_says_of_the_next_proof_is_a_secret(name):
    assert redact.headers([(name, "nextnonce=x")]) == [(name, "***")]


def test_a_foreign_text_without_secrets_stays():
    message = "Cannot connect to host 127.0.0.1:80 ssl:default [Connect call failed ('127.0.0.1', 80)]"
    assert redact.text(message) == message


@given(user=st.text("abc:@", max_size=6), rest=st.text("abc/?&=@#", max_size=12))
def test_whatever_stands_around_it_a_password_before_the_host_is_not_shown(user, rest):
    shown = redact.url(f"http://{user}:{SECRET}@host.example/{rest}")
    assert SECRET not in shown


@given(st.text(max_size=60))
def test_every_text_is_shown_without_an_error(any_text):
    assert isinstance(redact.text(any_text), str)
    assert isinstance(redact.url(any_text), str)


@pytest.mark.parametrize(
    "given_url",
    [
        "k:S3CR3T@host/x",
        "//k:S3CR3T@host/x",
        "http://k:S3CR3T\\",
        "http://a:S3CR3T:b",
        "http://k:S3CR3T",
        "http://h/x?code_verifier=S3CR3T",
    ],
)
def test_a_url_that_is_cut_or_lacks_its_scheme_shows_no_secret(given_url):
    assert SECRET not in redact.url(given_url)


def test_a_count_of_tokens_is_no_secret():
    said = "the limit is 50 tokens: a request of 60 tokens could never start (max_tokens=60)"
    assert redact.text(said) == said


def test_under_a_name_too_long_to_tell_everything_is_a_secret():
    assert redact.is_secret("x" * 257)
    assert not redact.is_secret("x" * 256)


LONG_TEXTS = """
from comity import redact
from comity.client.headers import Headers

for unit in ("w", "ab1-", "token", "a.", "a:", "//", "://", "cookie", "=", "%", "[", "'", " ", "basic ", "x@", "w\\t\\n", "Aa", "&", "?a", "%25", "%3D", "?a=%3D://", "eyJ", "eyJa.", "ghp_", "0:", "1234567", "T/B/", "a=%3D", "&a=%2525"):
    long = unit * ((1_000_000 if unit == "w" else 200_000) // len(unit))
    redact.text(long)
    redact.text(f"{long}=1")
    redact.url(long)
    redact.url(f"http://{long}")
    repr(Headers([("a", long), (long, "a")]))
"""


def test_a_server_cannot_choose_a_text_that_takes_long():
    """A quadratic search of one of these takes hours; linear ones take a second or two."""
    subprocess.run([sys.executable, "-c", LONG_TEXTS], check=True, timeout=300)
