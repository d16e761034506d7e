"""TLS: whom a client trusts, as whom it comes, and what cannot be used; real handshakes with a private authority."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import ssl
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import comity
from comity.client.async_client import AsyncClient
from comity.client.tls import TLS, system_context
from comity.errors import ConnectFailed, OptionsError, RequestError, TimedOut
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from tests.client.certificate import (
    CA,
    CLIENT_CERT,
    CLIENT_KEY,
    ENCRYPTED_KEY,
    HOME,
    OTHER_CA,
    PASSPHRASE,
    serving,
)
from tests.client.scripted import Peer, Scripted, answer, ok


@pytest.fixture
async def target():
    async with Scripted(answer(ok(b"target")), tls=serving()) as server:
        yield server


@pytest.fixture
async def other():
    async with Scripted(answer(ok(b"other")), tls=serving("proxy")) as server:
        yield server


async def got(server: Scripted, tls: TLS | None, **options) -> bytes:
    async with AsyncClient(server.url, tls=tls, retry=0, **options) as api:
        return (await api.get("/")).content


async def refused(server: Scripted, tls: TLS | None) -> ConnectFailed:
    with pytest.raises(ConnectFailed) as caught:
        await got(server, tls)
    return caught.value


async def test_without_the_ca_a_private_chain_fails_and_nothing_was_sent(target):
    """CP-033, CP-050"""
    error = await refused(target, None)
    assert (error.sent, error.phase, error.code) == ("no", "tls", "CERTIFICATE_VERIFY_FAILED")
    assert "unable to get local issuer certificate" in str(error)
    assert target.seen == []


@pytest.mark.parametrize(
    "ca",
    [CA, CA.encode(), [CA], [OTHER_CA, CA.encode()], (CA,), OTHER_CA + CA, f"Ümlaut\n{CA}", CA.replace("\n", "\r\n")],
)
async def test_with_the_ca_it_succeeds_as_text_bytes_or_list(target, ca):
    """CP-043, CP-050"""
    assert await got(target, TLS(ca=ca)) == b"target"


async def test_the_ca_is_added_to_what_the_system_trusts(target, other, monkeypatch):
    """CP-043"""
    monkeypatch.setenv("SSL_CERT_FILE", str(HOME / "other-ca.pem"))
    both = TLS(ca=CA)
    assert await got(target, both) == b"target"
    assert await got(other, both) == b"other"


async def test_ca_only_leaves_the_system_out(target, other, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(HOME / "other-ca.pem"))
    alone = TLS(ca=CA, ca_only=True)
    assert await got(target, alone) == b"target"
    await refused(other, alone)


@pytest.mark.parametrize("first", ["target", "other"])
async def test_one_clients_authority_is_not_anothers_in_any_order(target, other, first):
    """CP-049"""
    ours, theirs = TLS(ca=CA), TLS(ca=OTHER_CA)
    pairs = [(target, ours, theirs), (other, theirs, ours)]
    for server, right, wrong in pairs if first == "target" else pairs[::-1]:
        assert (await got(server, right)).decode() in {"target", "other"}
        await refused(server, wrong)
        await refused(server, None)


async def test_verification_off_is_off_for_its_client_alone(target):
    """CP-048, CP-049, TL-01"""
    loose, strict = AsyncClient(target.url, tls=TLS(verify=False)), AsyncClient(target.url, retry=0)
    async with loose, strict:
        assert (await loose.get("/")).ok
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await strict.get("/")
        assert (await loose.get("/")).ok
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", target.port, ssl=ssl.create_default_context())
    assert system_context().verify_mode is ssl.CERT_REQUIRED
    assert ssl._create_default_https_context is ssl.create_default_context


async def test_a_certificate_for_another_name_is_refused():
    async with Scripted(answer(ok()), host="127.0.0.2", tls=serving()) as server:
        error = await refused(server, TLS(ca=CA))
        assert error.code == "CERTIFICATE_VERIFY_FAILED"


async def test_the_server_name_is_asked_for_and_verified():
    """CP-047"""
    asked: list[str | None] = []
    async with Scripted(answer(ok()), host="127.0.0.2", tls=serving(asked=asked)) as server:
        assert await got(server, TLS(ca=CA, server_name="target.test")) == b"ok"
        assert server.seen[0].all("host") == [f"127.0.0.2:{server.port}"]
        await refused(server, TLS(ca=CA, server_name="wrong.test"))
    assert asked == ["target.test", "wrong.test"]


@pytest.mark.parametrize(
    ("key", "passphrase"),
    [
        (CLIENT_KEY, None),
        (CLIENT_KEY.encode(), None),
        (CLIENT_KEY, "not needed"),
        (ENCRYPTED_KEY, PASSPHRASE),
        (ENCRYPTED_KEY, PASSPHRASE.encode()),
    ],
)
async def test_mutual_tls_with_a_plain_and_an_encrypted_key(key, passphrase):
    """CP-044, CP-045, CP-046"""
    async with Scripted(answer(ok()), tls=serving(wants=CA)) as server:
        assert await got(server, TLS(ca=CA, cert=CLIENT_CERT, key=key, passphrase=passphrase)) == b"ok"
        with pytest.raises(RequestError):  # how it is refused depends on the version of TLS
            await got(server, TLS(ca=CA))
        assert len(server.seen) == 1


async def test_a_large_body_goes_over_tls_whole_and_the_connection_is_used_again(target):
    body = bytes(range(256)) * 20_000
    async with asyncio.timeout(10), AsyncClient(target.url, tls=TLS(ca=CA)) as api:
        for _ in range(3):
            await api.put("/", content=body)
            assert target.seen[-1].body == body
    assert target.connections == 1


async def test_an_upload_over_tls_that_stalls_ends_by_its_limit():
    async def never_read(peer: Peer) -> None:
        await peer.request(body=False)
        await asyncio.Event().wait()

    limits = Timeout(send=0.1, response=None, idle=None)
    async with (
        Scripted(never_read, tls=serving()) as server,
        AsyncClient(server.url, tls=TLS(ca=CA), retry=0, timeout=limits) as api,
    ):
        with pytest.raises(TimedOut) as caught:
            await api.put("/", content=bytes(30_000_000))
    assert (caught.value.phase, caught.value.sent) == ("send", "maybe")


@pytest.mark.parametrize("field", ["ca", "cert", "key"])
@pytest.mark.parametrize("path", ["/etc/ssl/SECRET.pem", "SECRET.key", b"SECRET.pem", Path("SECRET.pem")])
def test_a_path_instead_of_pem_names_the_field_and_what_to_do(field, path):
    """CP-042"""
    with pytest.raises(OptionsError, match="path") as caught:
        TLS(**{"cert": CLIENT_CERT, "key": CLIENT_KEY} | {field: path})
    assert caught.value.option == f"tls.{field}"
    assert f"give the PEM text: tls.{field}=Path(...).read_text()" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_path_in_a_list_names_its_place():
    """CP-042"""
    with pytest.raises(OptionsError, match=r"tls\.ca\[1\] cannot be used: it looks like a path"):
        TLS(ca=[CA, "/etc/ca.pem"])


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("tls.cert", {"cert": CLIENT_CERT}),
        ("tls.key", {"key": CLIENT_KEY}),
        ("tls.passphrase", {"passphrase": PASSPHRASE}),
        ("tls.ca", {"ca": CLIENT_KEY}),
        ("tls.ca", {"ca": "a\nb"}),
        ("tls.ca", {"ca": 7}),
        ("tls.ca", {"ca": CA.replace("MII", "AAA")}),
        ("tls.cert", {"cert": CLIENT_KEY, "key": CLIENT_KEY}),
        ("tls.cert", {"cert": CLIENT_CERT.replace("MII", "AAA"), "key": CLIENT_KEY}),
        ("tls.key", {"cert": CLIENT_CERT, "key": CLIENT_CERT}),
        ("tls.key", {"cert": CLIENT_CERT, "key": [CLIENT_KEY]}),
        ("tls.key", {"cert": CA, "key": CLIENT_KEY}),
        ("tls.key", {"cert": CLIENT_CERT, "key": ENCRYPTED_KEY}),
        ("tls.passphrase", {"cert": CLIENT_CERT, "key": ENCRYPTED_KEY, "passphrase": "wrong SECRET"}),
        ("tls.passphrase", {"cert": CLIENT_CERT, "key": ENCRYPTED_KEY, "passphrase": ""}),
        ("tls.passphrase", {"cert": CLIENT_CERT, "key": ENCRYPTED_KEY, "passphrase": "x" * 1025}),
        ("tls.passphrase", {"cert": CLIENT_CERT, "key": ENCRYPTED_KEY, "passphrase": 5}),
        ("tls.server_name", {"server_name": ""}),
        ("tls.server_name", {"server_name": "https://api.example"}),
        ("tls.server_name", {"server_name": "api.example:443"}),
        ("tls.server_name", {"server_name": "a\r\nb"}),
        ("tls.server_name", {"server_name": 1}),
        ("tls.verify", {"verify": "false"}),
        ("tls.verify", {"verify": None}),
        ("tls.ca_only", {"ca_only": True}),
        ("tls.ca_only", {"ca": CA, "ca_only": 1}),
        ("certificate", {"certificate": CLIENT_CERT}),
    ],
)
def test_what_cannot_be_used_names_the_field(option, options):
    """CP-044, CP-045, CP-046"""
    with pytest.raises(OptionsError) as caught:
        TLS(**options)
    assert caught.value.option == option
    assert "SECRET" not in str(caught.value)
    assert "BEGIN CERT" not in str(caught.value)


def test_an_encrypted_key_without_its_passphrase_says_so_and_asks_no_terminal():
    """CP-046"""
    with pytest.raises(OptionsError, match=r"tls\.key cannot be used: it is encrypted; give tls\.passphrase"):
        TLS(cert=CLIENT_CERT, key=ENCRYPTED_KEY)


def test_a_key_does_not_touch_a_disk_where_there_are_files_in_memory(monkeypatch):
    """CP-046. Only Linux has them; elsewhere the next test holds."""
    if not hasattr(os, "memfd_create"):
        return
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert TLS(cert=CLIENT_CERT, key=ENCRYPTED_KEY, passphrase=PASSPHRASE).cert


def no_memory(monkeypatch, how: str) -> None:
    if how == "absent":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    else:

        def forbidden(*_: object) -> int:
            raise PermissionError

        monkeypatch.setattr(os, "memfd_create", forbidden, raising=False)


@pytest.mark.parametrize("how", ["absent", "forbidden"])
@pytest.mark.parametrize("passphrase", [PASSPHRASE, "wrong"])
def test_elsewhere_a_private_file_holds_it_and_is_removed_at_once(monkeypatch, tmp_path, how, passphrase):
    """CP-046"""
    no_memory(monkeypatch, how)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self, path, **options):
        modes.extend(file.stat().st_mode & 0o777 for file in tmp_path.iterdir())
        load(self, path, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    with pytest.raises(OptionsError) if passphrase == "wrong" else nullcontext():
        TLS(cert=CLIENT_CERT, key=ENCRYPTED_KEY, passphrase=passphrase)
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


def test_a_tls_value_shows_no_secret_and_survives_a_copy():
    tls = TLS(ca=CA, cert=CLIENT_CERT, key=ENCRYPTED_KEY, passphrase=PASSPHRASE, server_name="Api.Example")
    assert repr(tls) == (
        "TLS(ca=<1 given>, cert='***', key='***', server_name='api.example', verify=True, ca_only=False)"
    )
    for twin in (copy.copy(tls), copy.deepcopy(tls), pickle.loads(pickle.dumps(tls)), replace(tls, verify=True)):
        assert twin == tls
        assert hash(twin) == hash(tls)
    assert replace(tls, verify=False) != tls
    with pytest.raises(AttributeError):
        tls.verify = False  # type: ignore[misc]


def test_tls_is_a_public_name():
    assert comity.TLS is TLS


@pytest.mark.parametrize("tls", ["ca.pem", True, {"verify": False}])
def test_a_client_wants_a_tls_value(tls):
    with pytest.raises(OptionsError, match=r"a TLS\(\.\.\.\)"):
        AsyncClient(tls=tls)


@pytest.mark.parametrize(
    ("option", "hint"), [("verify", r"tls=TLS\(verify=...\)"), ("proxies", "proxy"), ("cert", r"tls=TLS\(cert=...\)")]
)
def test_an_option_of_other_clients_leads_to_ours(option, hint):
    with pytest.raises(OptionsError, match=hint):
        AsyncClient(**{option: False})


async def test_a_request_cannot_change_the_tls_or_proxy_of_its_client():
    async with AsyncClient("http://127.0.0.1") as api:
        for option in ("tls", "proxy"):
            with pytest.raises(OptionsError, match=rf"AsyncClient\({option}=...\)"):
                await api.get("/", **{option: None})


async def test_a_certificate_failure_is_told_with_every_attempt(target):
    async with AsyncClient(target.url, retry=Retry(attempts=1)) as api:
        with pytest.raises(ConnectFailed) as caught:
            await api.get("/")
    (attempt,) = caught.value.attempts
    assert attempt.timings.tls > 0
    assert attempt.timings.upload == 0
