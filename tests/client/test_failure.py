"""failure: what others raise, told in a few words of ours."""

from __future__ import annotations

import ssl

import pytest
from aiohttp.http_exceptions import InvalidHeader

from comity.client.failure import AttemptProgress, translate
from comity.client.request import Request

REQUEST = Request("GET", "https://h/")


@pytest.mark.parametrize("reason", ["BAD_SIGNATURE", "CERTIFICATE_VERIFY_FAILED"])
def test_a_failed_handshake_is_told_by_the_reason_that_openssl_gives(reason):
    error = ssl.SSLError(1, "the text of OpenSSL")
    error.reason = reason
    _, _, told = translate(error, AttemptProgress(phase="tls"), REQUEST)
    assert f"(TLS: {reason.lower().replace('_', ' ')})" in str(told)


def test_no_bytes_of_an_answer_are_told():
    _, _, told = translate(InvalidHeader(b"X: S3CR3T"), AttemptProgress(answering=True), REQUEST)
    assert "S3CR3T" not in str(told)
