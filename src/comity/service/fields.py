"""Fields: the header fields that a submission asks for, checked as they will be sent, so that no send fails by them."""

from __future__ import annotations

from collections.abc import Mapping

from comity.client.address import parse
from comity.client.headers import checked
from comity.errors import InvalidRequest

_OF_A_CONNECTION = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""RFC 9110, 7.6.1: they concern a connection, and the service makes its own."""


def checked_fields(url: str, given: Mapping[str, str], body: bytes | None) -> dict[str, str]:
    """Return header fields that can be sent with this URL and body.

    Raises:
        InvalidRequest: one of them cannot, or is of a connection; or Host or Content-Length say something else than URL and body.
    """
    for name in given:
        if name.lower() in _OF_A_CONNECTION:
            raise InvalidRequest(
                f"header {name[:50]} cannot be set: the service makes the connections (RFC 9110, 7.6.1)"
            )
    fields: dict[str, str] = {}
    for name, value in checked(given):
        assert value is not None
        lower = name.lower()
        if lower == "host" and value.lower() != parse(url).origin.authority:
            raise InvalidRequest("header host differs from the URL's: leave it out, or submit the URL that is meant")
        if lower != "content-length":
            fields[name] = value
        elif value != str(len(body or b"")):
            raise InvalidRequest(f"header content-length differs from the {len(body or b'')} bytes of the body")
    return fields
