"""Errors as plain values: what is left of one goes into a log as JSON."""

from __future__ import annotations

import json

import pytest

import comity
from comity.client.async_client import AsyncClient
from comity.errors import RequestError
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.testing.scripted_transport import Answer, ScriptedTransport

QUICK = Retry(attempts=3, backoff=Backoff(base=0.001, cap=0.001))
SECRETS = ("hunter2", "s3cr3t", "t0k3n", "c00kie", "b0dy")
FAILED = Answer(500, json={"x": "b0dy"}, headers=[("Set-Cookie", "sid=c00kie")])


@pytest.mark.parametrize(
    ("script", "sent", "status"), [(FAILED, "yes", 500), ("connect", "no", None), ("lost", "yes", None)]
)
async def test_an_error_tells_its_attempts_and_no_secret_of_url_headers_body_and_answer(script, sent, status):
    """BR-07"""
    transport = ScriptedTransport(lambda request: script)
    async with AsyncClient("http://h", transport=transport, retry=QUICK, auth=comity.Bearer("t0k3n")) as api:
        with pytest.raises(RequestError) as caught:
            await api.put("/a?api_key=s3cr3t", json={"password": "b0dy"}, headers={"X-Api-Key": "hunter2"})
    row = caught.value.as_dict()
    text = json.dumps(row)
    assert [secret for secret in SECRETS if secret in text] == []
    assert (row["type"], row["sent"], row["status_code"]) == (type(caught.value).__name__, sent, status)
    assert [each["number"] for each in row["attempts"]] == [1, 2, 3]


async def test_a_proxy_that_cannot_be_reached_tells_no_password():
    """BR-07"""
    async with AsyncClient("http://h", proxy="http://me:hunter2@127.0.0.1:9", retry=0) as api:
        with pytest.raises(RequestError) as caught:
            await api.get("/?token=t0k3n")
    text = json.dumps(caught.value.as_dict())
    assert [secret for secret in SECRETS if secret in text] == []
