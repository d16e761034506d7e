"""The certificates of the tests; `certificates/make.sh` makes them."""

from __future__ import annotations

import ssl
from pathlib import Path

HOME = Path(__file__).parent / "certificates"

CA = (HOME / "ca.pem").read_text()
OTHER_CA = (HOME / "other-ca.pem").read_text()
CLIENT_CERT = (HOME / "client.crt").read_text()
CLIENT_KEY = (HOME / "client.key").read_text()
ENCRYPTED_KEY = (HOME / "client-encrypted.key").read_text()
PASSPHRASE = "correct horse"


def serving(name: str = "target", *, wants: str | None = None, asked: list[str | None] | None = None) -> ssl.SSLContext:
    """Return a server's context.

    Args:
        name: "target", under `CA`, or "proxy", under `OTHER_CA`; both are also localhost and 127.0.0.1.
        wants: the authority whose client certificates it asks for.
        asked: gets the names that clients ask for.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HOME / f"{name}.pem")
    if wants is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=wants)
    if asked is not None:
        names = asked

        def remember(_: ssl.SSLObject, server_name: str | None, __: ssl.SSLContext) -> None:
            names.append(server_name)

        context.sni_callback = remember
    return context
