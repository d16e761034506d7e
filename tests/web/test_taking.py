"""Taking in over HTTP: what a 201 says, keys, limits, and batches."""

from __future__ import annotations

import asyncio
import io
import json
import re
from contextlib import asynccontextmanager, suppress

import pytest

from comity.service.policies import Policies
from comity.service.vault import Vault
from comity.settings import Entry
from comity.store.records import Query
from comity.web.security import Tokens
from tests.web.stage import PLAIN, DownStore, staged


@pytest.mark.parametrize("path", ["/requests", "/request"])
async def test_a_submission_is_stored_and_answered_before_it_is_sent(api, path):
    """NP-001, NP-040, NP-047: 201 with id and status; the hint stands beside them."""
    status, body, headers = await api.call("POST", path, PLAIN)
    assert (status, body) == (201, {"id": body["id"], "status": "pending", "nextPollMs": 2000})
    assert (headers["Location"], headers["Retry-After"]) == (f"/requests/{body['id']}", "2")
    assert (await api.store.get(body["id"])).url == PLAIN["url"]


async def test_the_hint_of_a_delayed_delivery_is_its_delay(api):
    """NP-041: the time until it is due, where the table would say less."""
    _, body, headers = await api.call("POST", "/requests", PLAIN | {"delay": 90.0005})
    assert (body["nextPollMs"], headers["Retry-After"]) == (90_001, "91")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "nowhere"}, "url"),
        ({"method": "X"}, "method"),
        ({"maxRetries": 0}, "maxRetries"),
        ({"policy": "gentle"}, "policy"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_stored(api, fields, field):
    """NP-007."""
    status, body, headers = await api.call("POST", "/requests", PLAIN | fields)
    assert (status, body["status"], body["field"], body["title"]) == (422, 422, field, "Unprocessable Entity")
    assert headers["Content-Type"] == "application/problem+json"
    assert (await api.store.deliveries(Query())).deliveries == []


async def test_a_callback_that_nobody_could_sign_is_refused(tmp_path):
    async with staged(tmp_path, signs=False) as api:
        fields = PLAIN | {"callbackUrl": "https://me.example/"}
        status, body, _ = await api.call("POST", "/requests", fields)
        assert (status, body["field"], "COMITY_CALLBACK_SECRETS" in body["detail"]) == (422, "callbackUrl", True)
        (line,) = await batch(api, [json.dumps(fields).encode()])
        assert (line["error"]["status"], line["error"]["field"]) == (422, "callbackUrl")
        status, body, _ = await api.call("POST", "/requests", PLAIN | {"signed": True})
        assert (status, body["field"], "COMITY_CALLBACK_SECRETS" in body["detail"]) == (422, "signed", True)
        assert (await api.call("POST", "/requests", PLAIN | {"signed": False}))[0] == 201


async def test_what_is_no_json_is_a_bad_request(api):
    """NP-007."""
    for data in (b"", b"{", b"\xff"):
        status, _, _ = await api.call("POST", "/requests", data=data, headers={"Content-Type": "application/json"})
        assert status == 400
    status, _, _ = await api.call("POST", "/requests", data=b"{}", headers={"Content-Type": "text/plain"})
    assert status == 415


async def test_a_lane_of_another_origin_is_refused(api):
    await api.submit(lane="mail")
    status, body, _ = await api.call(
        "POST", "/requests", {"url": "https://b.example/", "method": "GET", "lane": "mail"}
    )
    assert (status, body["field"]) == (422, "lane")


async def test_a_key_stands_for_one_submission_also_while_it_is_delivered(api):
    first = await api.call("POST", "/requests", PLAIN, headers={"Idempotency-Key": '"k"'})
    claim = await api.begin()
    second = await api.call("POST", "/requests", PLAIN, headers={"Idempotency-Key": "k"})
    await api.end(claim)
    third = await api.call("POST", "/requests", PLAIN, headers={"Idempotency-Key": "k"})
    assert [(each[0], each[1]) for each in (first, second, third)] == [(201, first[1])] * 3
    assert ["Idempotency-Replayed" in each[2] for each in (first, second, third)] == [False, True, True]


async def test_a_key_that_stood_for_something_else_is_refused(api):
    await api.submit({"Idempotency-Key": "k"})
    status, body, _ = await api.call("POST", "/requests", PLAIN | {"body": "x"}, headers={"Idempotency-Key": "k"})
    assert (status, body["field"]) == (422, "Idempotency-Key")


@pytest.mark.parametrize(
    "change", [{"policy": "gentle"}, {"callbackUrl": "https://hooks.example/"}, {"policy": "gentle", "cron": "@"}]
)
async def test_a_key_that_was_accepted_is_answered_though_the_configuration_has_changed_since(tmp_path, change):
    """Its policy is gone, or the secret of callbacks: what is new is refused for that, what is known answered as ever."""
    fields = PLAIN | change | ({"cron": "0 0 1 1 *"} if "cron" in change else {})
    entry = Entry(name="gentle", options={"max_retries": 1}, label=str)
    key = {"Idempotency-Key": "k"}
    async with staged(tmp_path, policies=Policies({"gentle": entry})) as api:
        _, before, _ = await api.call("POST", "/requests", fields, headers=key)
    async with staged(tmp_path, signs=False) as api:
        status, after, headers = await api.call("POST", "/requests", fields, headers=key)
        assert (status, after["id"], headers["Idempotency-Replayed"]) == (201, before["id"], "true")
        (line,) = await batch(api, [json.dumps(fields | {"idempotencyKey": "k"}).encode()])
        assert line["accepted"]["id"] == before["id"]
        for other in ({"Idempotency-Key": "new"}, {}):
            status, told, _ = await api.call("POST", "/requests", fields, headers=other)
            assert (status, told["field"]) == (422, next(iter(change)))
        status, told, _ = await api.call("POST", "/requests", fields | {"body": "other"}, headers=key)
        assert (status, told["field"]) == (422, "Idempotency-Key")


async def test_a_key_whose_secrets_cannot_be_compared_any_more_says_so(tmp_path):
    fields, key = PLAIN | {"headers": {"Authorization": "Bearer hunter2"}}, {"Idempotency-Key": "k"}
    async with staged(tmp_path, vault=Vault([bytes(32)])) as api:
        assert (await api.call("POST", "/requests", fields, headers=key))[0] == 201
    async with staged(tmp_path) as api:
        status, told, _ = await api.call("POST", "/requests", fields, headers=key)
    assert (status, "encryption key of that time" in told["detail"]) == (422, True)


async def test_submissions_under_one_key_that_come_together_are_one(api):
    ids = await asyncio.gather(*(api.submit({"Idempotency-Key": "k"}) for _ in range(20)))
    assert len(set(ids)) == 1


async def test_more_than_allowed_is_refused_while_it_is_read(tmp_path):
    async with staged(tmp_path, max_body=1000) as api:
        status, body, _ = await api.call("POST", "/requests", PLAIN | {"body": "x" * 1000})
        assert (status, body["title"]) == (413, "Request Entity Too Large")

        async def endless():
            while True:
                yield b" " * 500

        json_type = {"Content-Type": "application/json"}
        status, _, _ = await api.call("POST", "/requests", data=endless(), headers=json_type)
        assert status == 413


async def test_a_full_queue_refuses_and_says_when_to_come_again(tmp_path):
    async with staged(tmp_path, most=2) as api:
        await api.submit()
        await api.submit()
        status, _, headers = await api.call("POST", "/requests", PLAIN)
        assert (status, headers["Retry-After"]) == (429, "5")


async def test_a_full_queue_answers_keys_that_it_knows_and_an_end_makes_room_at_once(tmp_path):
    """What was taken in stays taken in, and the bound counts what is there now."""
    async with staged(tmp_path, most=2) as api:
        number = await api.submit(headers={"Idempotency-Key": "a"})
        await api.submit()
        status, body, headers = await api.call("POST", "/requests", PLAIN, headers={"Idempotency-Key": "a"})
        assert (status, body["id"], headers["Idempotency-Replayed"]) == (201, number, "true")
        assert (await api.call("POST", "/requests", PLAIN, headers={"Idempotency-Key": "b"}))[0] == 429
        await api.deliver()
        assert (await api.call("POST", "/requests", PLAIN, headers={"Idempotency-Key": "b"}))[0] == 201


async def test_of_a_batch_as_many_are_taken_in_as_there_is_room_for(tmp_path):
    async with staged(tmp_path, most=2) as api:
        done = await batch(api, [json.dumps(PLAIN).encode()] * 3)
        assert ["accepted" in each for each in done] == [True, True, False]
        assert done[2]["error"]["status"] == 429


async def test_a_store_that_is_down_is_told_without_its_path(tmp_path):
    async with staged(tmp_path, wrap=DownStore) as api:
        api.store.down = True
        for call in (("POST", "/requests", PLAIN), ("GET", "/requests"), ("GET", "/readyz")):
            status, body, headers = await api.call(*call)
            assert (status, headers["Retry-After"], "secret" in str(body)) == (503, "5", False)
        status, _, _ = await api.call("POST", "/requests/batch", data=json.dumps(PLAIN), headers=NDJSON)
        assert status == 503
        api.store.down = False
        await api.submit()


NDJSON = {"Content-Type": "application/x-ndjson"}


async def batch(api, lines, **headers):
    status, body, _ = await api.call(
        "POST", "/requests/batch", data=io.BytesIO(b"\n".join(lines)), headers=NDJSON | headers
    )
    assert status == 200
    return [json.loads(line) for line in body.splitlines()]


async def test_a_batch_answers_each_line_in_order(api):
    good = json.dumps(PLAIN).encode()
    done = await batch(api, [good, b"", b"{", json.dumps(PLAIN | {"method": "X"}).encode(), good])
    assert [each["line"] for each in done] == [1, 3, 4, 5]
    assert [each.get("error", {}).get("status") for each in done] == [None, 400, 422, None]
    kept = (await api.store.deliveries(Query())).deliveries
    assert [each.id for each in reversed(kept)] == [done[0]["accepted"]["id"], done[3]["accepted"]["id"]]


async def test_a_line_that_the_store_refuses_spoils_no_other(api):
    await api.submit(lane="mail")
    lines = [PLAIN, {"url": "https://b.example/", "method": "GET", "lane": "mail"}, PLAIN | {"idempotencyKey": "k"}]
    done = await batch(api, [json.dumps(line).encode() for line in lines])
    assert [each.get("error", {}).get("field") for each in done] == [None, "lane", None]


async def test_lines_at_fault_leave_the_others_of_an_ordered_lane_in_order(api):
    lines = [PLAIN | {"lane": "line", "ordered": True, "body": str(each)} for each in range(9)]
    for each in (0, 4, 5):
        lines[each] |= {"lane": "plain", "ordered": each > 0}
    done = await batch(api, [json.dumps(line).encode() for line in lines])
    assert [line.get("error", {}).get("field") for line in done] == [None] * 4 + ["ordered"] * 2 + [None] * 3
    stored = (await api.store.deliveries(Query(lane="line"))).deliveries
    bodies = [(await api.store.payload(each.id)).body for each in reversed(stored)]
    assert bodies == [b"1", b"2", b"3", b"6", b"7", b"8"]


async def test_the_keys_of_a_batch_are_those_of_single_submissions(api):
    first = await api.submit({"Idempotency-Key": '"k"'})
    lines = [PLAIN | {"idempotencyKey": "k"}, PLAIN | {"idempotencyKey": "k", "body": "x"}]
    done = await batch(api, [json.dumps(line).encode() for line in lines])
    assert done[0]["accepted"]["id"] == first
    assert done[1]["error"]["status"] == 422


async def test_a_line_that_is_too_long_is_refused_alone(tmp_path):
    async with staged(tmp_path, max_body=300_000) as api:
        good = json.dumps(PLAIN).encode()
        done = await batch(api, [b"x" * 1_000_000, good, b"y" * 400_000])
        assert [each.get("error", {}).get("status") for each in done] == [413, None, 413]


async def test_a_batch_is_answered_while_it_is_written(api):
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def lines():
        for _ in range(3):
            yield json.dumps(PLAIN).encode() + b"\n"
            await answers.get()

    async with api.session.post(f"{api.url}/requests/batch", data=lines(), headers=NDJSON) as response:
        count = 0
        async for line in response.content:
            count += 1
            answers.put_nowait(line)
    assert count == 3


async def test_a_store_that_goes_down_within_a_batch_refuses_what_it_did_not_store(tmp_path):
    async with staged(tmp_path, wrap=DownStore) as api:
        went = asyncio.Event()

        async def lines():
            yield json.dumps(PLAIN).encode() + b"\n"
            await went.wait()
            yield json.dumps(PLAIN).encode() + b"\n"

        async with api.session.post(f"{api.url}/requests/batch", data=lines(), headers=NDJSON) as response:
            first = json.loads(await response.content.readline())
            api.store.down = True
            went.set()
            second = json.loads(await response.content.readline())
        assert "accepted" in first
        assert second["error"]["status"] == 503


async def test_thousands_of_lines_are_stored(api):
    lines = [json.dumps(PLAIN | {"body": str(n)}).encode() for n in range(3_000)]
    done = await batch(api, lines)
    assert [each["line"] for each in done] == list(range(1, 3_001))
    assert (await api.store.counts()).pending == 3_000


TOKENS = [
    "# who",
    "shop submit submit-token-0123456",
    "eyes read read-token-01234567",
    "",
    "boss admin admin-token-0123456",
]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def test_each_token_may_do_what_its_scopes_say(tmp_path):
    async with staged(tmp_path, tokens=Tokens(TOKENS)) as api:
        asked = {
            "submit": ("POST", "/requests", PLAIN),
            "read": ("GET", "/requests"),
            "admin": ("POST", "/requests/replay", {"status": "failed"}),
        }
        allowed = {
            token: [what for what, call in asked.items() if (await api.call(*call, headers=bearer(token)))[0] < 300]
            for token in ("submit-token-0123456", "read-token-01234567", "admin-token-0123456")
        }
        assert list(allowed.values()) == [["submit"], ["read"], ["submit", "read", "admin"]]
        status, _, headers = await api.call("GET", "/requests", headers=bearer("submit-token-0123456"))
        assert (status, "insufficient_scope" in headers["WWW-Authenticate"]) == (403, True)
        for given in ({}, bearer("nobody-knows-me-0"), bearer("é"), {"Authorization": "Basic eHg="}):
            status, body, headers = await api.call("GET", "/requests", headers=given)
            assert (status, headers["WWW-Authenticate"][:6], "nobody" in str(body)) == (401, "Bearer", False)
        assert (await api.call("GET", "/healthz"))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:3000"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_without_tokens_no_page_of_another_site_gets_in(api, headers):
    status, _, _ = await api.call("POST", "/requests", PLAIN, headers=headers)
    assert status == 403
    assert (await api.store.counts()).pending == 0


async def test_unknown_paths_methods_and_parameters_are_problems(api):
    for call, expected in (
        (("GET", "/nowhere"), 404),
        (("DELETE", "/requests"), 405),
        (("GET", "/requests?state=failed"), 422),
        (("GET", "/requests?lane=a&lane=b"), 422),
    ):
        status, body, headers = await api.call(*call)
        assert (status, body["status"], headers["Content-Type"]) == (expected, expected, "application/problem+json")


async def test_each_answer_is_counted_by_its_path_in_the_description(api):
    await api.call("GET", "/requests/some-id")
    await api.call("GET", "/made-up")
    _, text, _ = await api.call("GET", "/metrics")
    lines = text.decode().splitlines()
    assert 'comity_http_requests_total{method="GET",path="/requests/{id}",status="404"} 1' in lines
    assert 'comity_http_requests_total{method="GET",path="(none)",status="404"} 1' in lines
    assert 'comity_deliveries{state="pending"} 0' in lines
    assert all(re.fullmatch(r"# (HELP|TYPE) .*|[a-z_]+(\{.*\})? [0-9.]+|", line) for line in lines)


async def test_a_client_that_leaves_within_its_submission_leaves_nothing_behind(api):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    writer.write(b"POST /requests HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    del reader
    await api.submit()
    assert (await api.store.counts()).pending == 1


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    async with staged(tmp_path, patience=0.01) as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
        writer.write(b"POST /requests HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_batch_whose_client_leaves_keeps_what_it_answered(api):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    line = json.dumps(PLAIN).encode() + b"\n"
    head = b"POST /requests/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    writer.write(head + line)
    await reader.readuntil(b"accepted")
    writer.close()
    await writer.wait_closed()
    assert (await api.store.counts()).pending == 1


@asynccontextmanager
async def sending(api, *parts):
    """Begin a batch with these parts of its body; give what the answer is read from, and what the rest is written to."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]), limit=4096)
    head = b"POST /requests/batch HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    writer.write(head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def written(writer, lines):
    """Write these lines of a batch again and again; it returns with an error only."""
    while True:
        writer.write(b"%x\r\n%s\r\n" % (len(lines), lines))
        await writer.drain()


async def test_a_batch_that_does_not_come_is_not_waited_for(tmp_path):
    async with staged(tmp_path, patience=0.01) as api, sending(api) as (reader, _):
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        await reader.read()


async def test_a_batch_that_stops_coming_is_answered_as_far_as_it_came_and_cut_off(tmp_path):
    parts = json.dumps(PLAIN).encode() + b"\n", b'{"url":'
    async with staged(tmp_path, patience=0.5) as api, sending(api, *parts) as (reader, _):
        assert b'"accepted"' in await reader.readuntil(b"}}\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert (await api.store.counts()).pending == 1


async def test_a_batch_whose_answer_is_not_read_is_cut_off(tmp_path):
    async with staged(tmp_path, patience=0.2) as api, sending(api) as (_, writer):
        with pytest.raises(ConnectionError):
            await written(writer, b"{\n" * 5_000)
