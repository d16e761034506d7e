"""Submission: what is taken in, and what is stored of it."""

from __future__ import annotations

import msgspec
import pytest

from comity.policy.units import NS
from comity.service.guard import Guard
from comity.service.schedule import with_first_time
from comity.service.submit import Refused, idempotency_key, read, to_deliver
from comity.service.terms import Asked, Terms, camel
from comity.service.vault import Vault
from comity.store.ids import Ids
from comity.store.records import NewDelivery
from comity.store.schedules import run_of

GUARD = Guard()
PLAIN = {"url": "https://api.example/x?y=1", "method": "POST"}


def stored(key=None, **fields):
    return to_deliver(read(msgspec.json.encode(PLAIN | fields)), GUARD, key)


def test_what_is_not_said_has_defaults():
    """NP-004..006: body is optional, five retries, a second as the base."""
    new = stored()
    assert (new.body, new.max_attempts, Terms.read(new.options)) == (None, 6, Terms(max_retries=5, backoff_ms=1000))
    assert (new.origin, new.lane, new.mode, new.priority) == ("https://api.example", None, "at_least_once", 5)


def test_every_term_is_stored_and_none_that_was_not_given_is_in_the_fingerprint():
    """A release with other defaults changes nothing that waits, and knows a submission again that came before it."""
    new = stored("k")
    assert set(msgspec.json.decode(new.options)) == {camel(name) for name in Terms.__struct_fields__}
    nothing = Asked().stored()
    bare = NewDelivery(
        origin=new.origin, method=new.method, url=new.url, headers=new.headers, options=nothing, idempotency_key="k"
    )
    assert (new.fingerprint, nothing) == (bare.fingerprint, b"{}")
    assert new.fingerprint != stored("k", maxRetries=2).fingerprint


def test_a_default_that_is_said_aloud_is_the_same_submission():
    """Equal is enough: bytes and large numbers that were just read are never the very default."""
    said = stored("k", maxRetries=5, backoffMs=1000, headers={}, strict4xx=False, priority=5)
    assert said.fingerprint == stored("k").fingerprint
    plain = {"origin": "https://api.example", "method": "POST", "url": "https://api.example/"}
    fresh = NewDelivery(**plain, headers=bytes(bytearray(b"{}")), options=bytes(bytearray(b"{}")))
    assert fresh.fingerprint == NewDelivery(**plain).fingerprint


def test_everything_that_is_said_is_stored():
    new = stored(
        headers={"X-A": " 1 "}, body="é", maxRetries=2, backoffMs=500, strict4xx=True, timeoutMs=9, priority=0,
        runAt="2026-12-24T18:00:00+01:00", deadline="2027-01-01T00:00:00Z", callbackUrl="https://me.example/",
        delivery="at_most_once", lane="mail", idempotencyKey='"k"',
    )  # fmt: skip
    assert (new.headers, new.body, new.max_attempts) == (b'{"X-A":"1"}', "é".encode(), 3)
    assert Terms.read(new.options) == Terms(
        max_retries=2, backoff_ms=500, strict_4xx=True, timeout_ms=9, callback_url="https://me.example/"
    )
    assert (new.run_at, new.deadline) == (1_798_131_600 * 10**9, 1_798_761_600 * 10**9)
    assert (new.mode, new.lane, new.idempotency_key, new.priority) == ("at_most_once", "mail", "k", 0)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": None}, "url"),
        ({"url": ""}, "url"),
        ({"url": "nowhere"}, "url"),
        ({"url": "ftp://a.example/"}, "url"),
        ({"url": "https://me:pw@a.example/"}, "url"),
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"method": "HEAD"}, "method"),
        ({"method": "get"}, "method"),
        ({"body": {}}, "body"),
        ({"maxRetries": 0}, "maxRetries"),
        ({"maxRetries": 1.5}, "maxRetries"),
        ({"maxRetries": True}, "maxRetries"),
        ({"maxRetries": 1001}, "maxRetries"),
        ({"backoffMs": 99}, "backoffMs"),
        ({"headers": {"X-A": 1}}, "headers"),
        ({"headers": {"X A": "1"}}, "headers"),
        ({"headers": {"X-A": "1\r\nX-B: 2"}}, "headers"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers"),
        ({"headers": {"Connection": "close"}}, "headers"),
        ({"headers": {"Keep-Alive": "timeout=5"}}, "headers"),
        ({"headers": {"TE": "trailers"}}, "headers"),
        ({"headers": {"Trailer": "X-A"}}, "headers"),
        ({"headers": {"upgrade": "h2c"}}, "headers"),
        ({"headers": {"Proxy-Authorization": "Basic eA=="}}, "headers"),
        ({"headers": {"Proxy-Connection": "close"}}, "headers"),
        ({"headers": {"Host": "b.example"}}, "headers"),
        ({"headers": {"Host": "api.example", "host": "api.example"}}, "headers"),
        ({"headers": {"Content-Length": "5"}}, "headers"),
        ({"headers": {"content-length": "5"}, "body": "four"}, "headers"),
        ({"priority": 10}, "priority"),
        ({"runAt": "tomorrow"}, "runAt"),
        ({"runAt": "9999-12-31T00:00:00Z"}, "runAt"),
        ({"delay": -1}, "delay"),
        ({"delay": "soon"}, "delay"),
        ({"delay": 1, "runAt": "2026-12-24T18:00:00Z"}, "delay"),
        ({"deadline": 5}, "deadline"),
        ({"deadline": "10m"}, "deadline"),
        ({"cron": "daily"}, "cron"),
        ({"cron": ""}, "cron"),
        ({"cron": "* " * 501}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"cron": "* * * * *", "zone": "Mars/Olympus"}, "zone"),
        ({"cron": "* * * * *", "zone": ""}, "zone"),
        ({"cron": "* * * * *", "zone": "../../etc/passwd"}, "zone"),
        ({"cron": "* * * * *", "overlap": "queue"}, "overlap"),
        ({"cron": "* * * * *", "delay": 1}, "cron"),
        ({"cron": "* * * * *", "runAt": "2026-12-24T18:00:00Z"}, "cron"),
        ({"cron": "* * * * *", "deadline": "2027-01-01T00:00:00Z"}, "deadline"),
        ({"cron": "* * * * *", "deadline": "0s"}, "deadline"),
        ({"cron": "* * * * *", "deadline": "soon"}, "deadline"),
        ({"zone": "Europe/Berlin"}, "zone"),
        ({"overlap": "skip"}, "overlap"),
        ({"callbackUrl": "http://10.0.0.1/"}, "callbackUrl"),
        ({"delivery": "exactly_once"}, "delivery"),
        ({"lane": ""}, "lane"),
        ({"lane": "a b"}, "lane"),
        ({"timeoutMs": 0}, "timeoutMs"),
        ({"idempotencyKey": ""}, "idempotencyKey"),
        ({"retries": 3}, "retries"),
    ],
)
def test_what_cannot_be_used_is_refused_by_the_name_of_its_field(fields, field):
    """NP-002, NP-003, NP-005..007."""
    with pytest.raises(Refused) as refused:
        stored(**fields)
    assert refused.value.field == field


def test_host_and_content_length_may_say_what_is_so():
    new = stored(headers={"Host": "API.example", "Content-Length": "4", "X-A": " 1 "}, body="four", method="POST")
    assert msgspec.json.decode(new.headers) == {"Host": "API.example", "X-A": "1"}


def test_with_cron_it_is_a_schedule_of_what_it_would_be_without():
    """Its deadline is a length from the time of each run on."""
    fields = {"body": "x", "priority": 2, "idempotencyKey": "k"}
    new = stored(cron="*/5 * * * *", zone="Europe/Berlin", overlap="skip", deadline="10m", **fields)
    assert (new.run, new.idempotency_key) == (stored(**fields), "k")
    assert (new.cron, new.zone, new.overlap, new.within) == ("*/5 * * * *", "Europe/Berlin", "skip", 600 * 10**9)
    plain = stored(cron="0 0 * * *")
    assert (plain.zone, plain.overlap, plain.within) == ("UTC", "allow", None)


def test_when_a_schedule_begins_is_no_part_of_what_it_is():
    """The same submission is the same whenever it comes; any other is not."""
    new = stored(cron="0 0 * * *")
    assert with_first_time(new, 5).first_at == 86_400 * 10**9
    assert with_first_time(new, 5).fingerprint == new.fingerprint
    others = [{"zone": "Asia/Tokyo"}, {"overlap": "skip"}, {"deadline": "1h"}, {"body": "x"}, {"cron": "1 0 * * *"}]
    found = {stored(**{"cron": "0 0 * * *"} | other).fingerprint for other in others}
    assert len(found | {new.fingerprint, new.run.fingerprint}) == len(others) + 2


def test_a_schedule_is_sealed_and_the_same_again():
    vault = Vault([bytes(32)])
    text = msgspec.json.encode(PLAIN | {"cron": "0 0 * * *", "headers": {"Authorization": "Bearer hunter2"}})
    first, again = (to_deliver(read(text), GUARD, "k", vault=vault) for _ in "ab")
    assert b"hunter2" not in first.template
    assert first.template != again.template
    assert again.is_as(first.fingerprint)
    assert not again.is_as(stored("k", cron="0 0 * * *").fingerprint)


@pytest.mark.parametrize("missing", ["url", "method"])
def test_url_and_method_are_required(missing):
    """NP-002, NP-003."""
    with pytest.raises(Refused) as refused:
        read(msgspec.json.encode({name: value for name, value in PLAIN.items() if name != missing}))
    assert refused.value.field == missing


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"url": "\xff"}', b'{"url":"\\ud800"}', b"[" * 100_000])
def test_what_is_no_json_is_refused_as_such(text):
    with pytest.raises(Refused) as refused:
        read(text)
    assert refused.value.field is None


def test_a_password_in_a_url_is_not_told():
    with pytest.raises(Refused) as refused:
        stored(url="ftp://me:hunter2@a.example/?api_key=hunter2")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "key"),
    [("abc", "abc"), ('"abc"', "abc"), (' "a b" ', "a b"), (r'"a\"b\\"', 'a"b\\'), (None, None)],
)
def test_a_key_is_read_quoted_or_bare(value, key):
    assert idempotency_key(value) == key


@pytest.mark.parametrize("value", ["", '"', '""', '"a', '"a"b"', "é", "a\tb", "x" * 256])
def test_a_key_that_is_none_is_refused(value):
    with pytest.raises(Refused):
        idempotency_key(value)


def test_what_is_to_be_signed_brings_no_signature_of_its_own():
    with pytest.raises(Refused, match="Webhook-Id cannot be set beside signed") as refused:
        stored(headers={"Webhook-Id": "1"}, signed=True)
    assert refused.value.field == "headers"
    assert Terms.read(stored(signed=True).options).signed


@pytest.mark.parametrize("value", ["0199c0de-6800-7000-8000-000000000000/2026-12-24T05:30:00Z"])
def test_a_key_of_the_form_that_runs_of_schedules_have_is_refused(value):
    with pytest.raises(Refused, match="of the form ID/TIME"):
        idempotency_key(value)
    assert idempotency_key(value[1:]) == value[1:]


def test_that_form_is_the_one_of_runs():
    run = NewDelivery(origin="https://api.example:443", method="GET", url="https://api.example/")
    made = run_of(Ids().new(NS), run, 1_700_000_000 * NS, None)
    with pytest.raises(Refused, match="of the form ID/TIME"):
        idempotency_key(made.idempotency_key)


@pytest.mark.parametrize("value", ["callback 5", '"callback 12"'])
def test_a_key_that_a_callback_may_come_to_have_is_refused(value):
    """Whoever took it before would have had that callback taken for a repetition, and so lost."""
    with pytest.raises(Refused, match='"callback N", which the service uses itself'):
        idempotency_key(value)
    assert idempotency_key("callback") == "callback"


def test_two_keys_have_to_be_one():
    assert stored("k", idempotencyKey="k").idempotency_key == "k"
    with pytest.raises(Refused) as refused:
        stored("k", idempotencyKey="other")
    assert refused.value.field == "idempotencyKey"


@pytest.mark.parametrize("name", ["url", "callbackUrl"])
def test_a_url_with_a_fragment_is_refused(name):
    """It would never be sent, so it is a mistake, or a secret that is stored for nothing."""
    with pytest.raises(Refused, match="has a fragment") as refused:
        stored(**{name: "https://api.example/x#S3CR3T"})
    assert (refused.value.field, "S3CR3T" in str(refused.value)) == (name, False)
