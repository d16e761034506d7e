"""Vault: what is secret among a delivery's headers is not in the database, and arrives all the same."""

from __future__ import annotations

import hashlib
import os

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from comity import redact
from comity.errors import StoreError
from comity.service.submit import read, to_deliver
from comity.service.vault import KeyMissing, Vault
from comity.store.records import Claim, NewDelivery
from comity.testing.upstream import Upstream
from tests.service.running import LOOPBACK, Bench, bench

OLD, NEW = os.urandom(32), os.urandom(32)
SECRET = "hunter2-of-the-headers"
PLAIN = {
    "url": "http://127.0.0.1/x",
    "method": "POST",
    "headers": {"Authorization": f"Bearer {SECRET}", "X-A": "1"},
    "idempotencyKey": "k",
}


def stored(vault, **fields):
    return to_deliver(read(msgspec.json.encode(PLAIN | fields)), LOOPBACK, vault=vault)


def claimed(new, **changes):
    """Return the claim that a worker gets of a delivery."""
    nothing = dict.fromkeys(Claim.__struct_fields__, 0)
    same = {name: getattr(new, name) for name in Claim.__struct_fields__ if hasattr(new, name)}
    return Claim(**nothing | same | changes)


@pytest.fixture
async def work(tmp_path):
    async with bench(tmp_path) as made:
        yield made


def test_what_was_sealed_is_opened_for_its_own_delivery():
    vault = Vault([NEW])
    new = stored(vault)
    assert SECRET.encode() not in msgspec.json.encode(new)
    assert vault.open(claimed(new)) == PLAIN["headers"]
    assert msgspec.json.decode(new.headers)["X-A"] == "1"


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=200))
def test_every_value_comes_back(value):
    vault = Vault([OLD])
    headers = {"X-Token": value, "Cookie": "a=b"}
    assert vault.open(claimed(stored(vault, headers=headers))) == headers


def test_the_same_value_is_sealed_differently_each_time():
    vault = Vault([NEW])
    assert stored(vault).headers != stored(vault).headers


@pytest.mark.parametrize("moved", [{"url": "http://127.0.0.1/y"}, {"method": "GET"}, {"headers": "X-Token"}])
def test_a_sealed_value_opens_nowhere_else(moved):
    """Who can write to the database cannot have a secret sent elsewhere."""
    vault = Vault([NEW])
    new = stored(vault)
    if "headers" in moved:
        moved = {"headers": new.headers.replace(b"Authorization", moved["headers"].encode())}
    with pytest.raises(StoreError, match="was changed, or sealed for another") as refused:
        vault.open(claimed(new, **moved))
    assert refused.value.reason == "corrupt"


@pytest.mark.parametrize("broken", [b"[1]", b'{"A":{"key":"x"}}', b"{"])
def test_headers_that_are_none_are_corrupt(broken):
    with pytest.raises(StoreError, match="cannot be read"):
        Vault().open(claimed(stored(Vault()), headers=broken))


def test_a_cut_value_is_corrupt():
    vault = Vault([NEW])
    told = msgspec.json.decode(stored(vault).headers)
    told["Authorization"]["sealed"] = "AAAA"
    with pytest.raises(StoreError, match="was changed"):
        vault.open(claimed(stored(vault), headers=msgspec.json.encode(told)))


def test_an_older_key_opens_what_it_sealed_and_a_newer_one_seals():
    before, after = Vault([OLD]), Vault([NEW, OLD])
    assert after.open(claimed(stored(before))) == PLAIN["headers"]
    assert msgspec.json.decode(stored(after).headers)["Authorization"]["key"] == after.ids[0] != before.ids[0]


def test_a_key_that_is_not_there_is_named_by_its_id():
    sealing = Vault([OLD])
    new = stored(sealing)
    for vault in (Vault(), Vault([NEW])):
        with pytest.raises(KeyMissing, match=sealing.ids[0]):
            vault.open(claimed(new))
        assert vault.missing(new.headers) == set(sealing.ids)
    assert Vault([NEW, OLD]).missing(new.headers) == set()


def test_each_run_of_a_schedule_opens_what_was_sealed_once():
    """Its template is what is stored, and runs have its method and URL."""
    vault = Vault([NEW])
    schedule = stored(vault, cron="0 12 * * *")
    assert SECRET.encode() not in schedule.template
    run = msgspec.msgpack.decode(schedule.template, type=NewDelivery)
    assert vault.open(claimed(run)) == PLAIN["headers"]
    again = stored(Vault([OLD, NEW]), cron="0 12 * * *")
    assert again.is_as(schedule.fingerprint)


def test_what_is_secret_is_told_by_the_name_or_by_the_settings():
    vault = Vault([NEW], ["X-Customer"])
    headers = {"x-customer": "c", "X-Api-Key": "k", "Cookie": "s=1", "Idempotency-Key": "i", "Accept": "*/*"}
    told = msgspec.json.decode(stored(vault, headers=headers).headers)
    assert {name for name, value in told.items() if isinstance(value, dict)} == {"x-customer", "X-Api-Key", "Cookie"}


def test_without_a_key_or_a_secret_everything_is_stored_as_it_came():
    assert stored(Vault()).headers == msgspec.json.encode(PLAIN["headers"])
    bare = {"headers": {"X-A": "1"}}
    assert stored(Vault([NEW]), **bare).headers == stored(Vault(), **bare).headers
    assert stored(Vault([NEW]), **bare).fingerprint == stored(Vault(), **bare).fingerprint


VAULTS = [Vault(), Vault([OLD]), Vault([NEW, OLD]), Vault([NEW, OLD], ["X-A"])]


@pytest.mark.parametrize("before", range(len(VAULTS)))
def test_a_submission_stays_the_same_when_keys_come_and_change(before):
    """Sealed anew each time, and under another key, it is what it was; another secret is another submission."""
    for after in VAULTS[before:]:
        first = stored(VAULTS[before])
        assert stored(after).is_as(first.fingerprint)
        assert not stored(after, headers={"Authorization": "Bearer other", "X-A": "1"}).is_as(first.fingerprint)
        assert not stored(after, body="other").is_as(first.fingerprint)


def test_no_bare_digest_of_a_secret_is_stored():
    """A short secret could be found by trying."""
    plain, sealed = stored(Vault()), stored(Vault([NEW]))
    assert sealed.fingerprint != plain.fingerprint
    assert hashlib.sha256(plain.fingerprint).digest() != sealed.fingerprint


async def test_no_secret_is_in_any_byte_of_the_file_and_all_arrive(work):
    """Neither what is sent, nor the cookies of an answer, nor what was given under a name of one's own."""
    vault = Vault([NEW], ["X-Customer"])
    own = {"headers": PLAIN["headers"] | {"X-Customer": f"c-{SECRET}"}}
    paths = ["/set-cookie", "/status/500", "/flaky/a?fail=1&code=503"]
    new = [
        stored(vault, url=work.upstream.url + path, idempotencyKey=path, maxRetries=1, backoffMs=100, **own)
        for path in paths
    ]
    made = await work.store.submit(new)
    async with work.service(vault=vault):
        ends = [await work.end(each.id) for each in made]
    assert [each.state for each in ends] == ["completed", "failed", "completed"]
    for arrival in work.upstream.log:
        sent = dict(arrival.headers)
        assert (sent["Authorization"], sent["X-Customer"]) == (f"Bearer {SECRET}", f"c-{SECRET}")
    files = list(work.path.parent.glob("store.sqlite*"))
    assert {"store.sqlite", "store.sqlite-wal"} <= {each.name for each in files}
    content = b"".join(each.read_bytes() for each in files)
    assert b"127.0.0.1" in content
    assert [secret for secret in (SECRET, "s3cret") if secret.encode() in content] == []


async def test_no_secret_is_in_any_table_of_postgres(postgres_stage):
    store = await postgres_stage.open()
    async with Upstream(capture=True) as upstream:
        work = Bench(store, upstream, None)
        (made,) = await store.submit([stored(Vault([NEW]), url=f"{upstream.url}/set-cookie")])
        async with work.service(vault=Vault([NEW])):
            assert (await work.end(made.id)).state == "completed"
        (arrival,) = upstream.log
        assert dict(arrival.headers)["Authorization"] == f"Bearer {SECRET}"
    tables = await postgres_stage.sql("SELECT tablename FROM pg_tables WHERE schemaname = $1", postgres_stage.schema)
    rows = [await postgres_stage.sql(f"SELECT t::text FROM {name} t") for (name,) in tables]
    content = "".join(text for each in rows for (text,) in each)
    assert made.id in content
    for secret in (SECRET, "s3cret"):  # bytes are shown in hex
        assert (secret in content, secret.encode().hex() in content) == (False, False)


async def test_without_its_key_a_delivery_waits_and_is_delivered_when_it_is_there(work, caplog):
    """A wrong configuration loses nothing."""
    new = [stored(Vault([OLD]), url=f"{work.upstream.url}/ok/{n}", idempotencyKey=str(n)) for n in range(2)]
    made = [each.id for each in await work.store.submit(new)]
    async with work.service(vault=Vault([NEW])):
        for each in made:
            waiting = await work.put_off(each)
            assert (waiting.state, waiting.attempts) == ("pending", 0)
            assert "which is not configured" in waiting.last_error
        await work.end(await work.submit("/ok/other"))
    assert (
        redact.text(caplog.text).count(
            f"the same: a stored header was sealed with the key {Vault([OLD]).ids[0]}, which is not configured"
        )
        == 1
    )
    for each in made:
        await work.store.hasten(each)
    async with work.service(vault=Vault([NEW, OLD])):
        assert [(await work.end(each)).state for each in made] == ["completed"] * 2


async def test_what_ended_is_replayed_after_the_keys_were_changed(work):
    (made,) = await work.store.submit([stored(Vault([OLD]), url=f"{work.upstream.url}/ok/1")])
    async with work.service(vault=Vault([OLD])):
        await work.end(made.id)
    await work.store.replay(made.id)
    async with work.service(vault=Vault([NEW, OLD])):
        await work.end(made.id)
    assert [dict(each.headers)["Authorization"] for each in work.upstream.log] == [f"Bearer {SECRET}"] * 2


async def test_what_was_stored_before_there_was_a_key_is_delivered(work):
    (made,) = await work.store.submit([stored(Vault(), url=f"{work.upstream.url}/ok/1")])
    async with work.service(vault=Vault([NEW])):
        assert (await work.end(made.id)).state == "completed"


async def test_a_sealed_value_that_was_moved_fails_its_delivery_and_is_not_sent(work):
    sealed = stored(Vault([NEW]), url=f"{work.upstream.url}/ok/1")
    (made,) = await work.store.submit([replace(sealed, url=f"{work.upstream.url}/ok/2")])
    async with work.service(vault=Vault([NEW])):
        found = await work.end(made.id)
    assert (found.state, found.reason, SECRET in str(found.error)) == ("failed", "invalid", False)
    assert work.upstream.log == []
