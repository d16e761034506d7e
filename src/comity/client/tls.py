"""TLS: whom a client trusts, and as whom it comes.

All material is PEM *content*, checked when the value is made. Nothing here changes what other connections of the process
trust: every value has a context of its own.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from comity import redact
from comity.client import address
from comity.errors import InvalidRequest, OptionsError
from comity.policy.naming import named_options

Pem = str | bytes
"""The content of a PEM file."""

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
_BEGIN = b"-----BEGIN "
_LABELS = {
    "CERTIFICATE": re.compile(rb"(?:X509 |TRUSTED )?CERTIFICATE"),
    "PRIVATE KEY": re.compile(rb"[A-Z0-9 ]*PRIVATE KEY"),
}
"""How blocks of each kind may be labelled."""

_LONGEST_PATH = 1024
_LONGEST_PASSPHRASE = 1024  # OpenSSL's PEM_BUFSIZE


@named_options
@dataclass(frozen=True, init=False)
class TLS:
    """How a client speaks TLS with the servers it calls; with a proxy, with the servers behind it.

    Args:
        ca: certificates to trust besides those of the system: PEM content, or a list of it.
        cert: the client's own certificate, chain included, for servers that ask for one; it needs `key`.
        key: the private key to `cert`, PEM content. It is handed to OpenSSL through memory; where the platform has no
            files in memory, through a temporary file that only this user may read and that is removed at once.
        passphrase: of an encrypted `key`.
        server_name: the name to ask for (SNI, RFC 6066 section 3) and to find in the certificate, of every server that
            this client calls, when it is not the URL's.
        verify: False accepts any certificate, for this client alone.
        ca_only: trust `ca` alone, not what the system trusts.

    Raises:
        OptionsError: a path stands where content is needed, a part is missing, or OpenSSL cannot use it.

    Example:
        >>> TLS(server_name="api.example").server_name
        'api.example'
    """

    ca: tuple[bytes, ...]
    cert: bytes | None
    key: bytes | None = field(repr=False)
    passphrase: bytes | None = field(repr=False)
    server_name: str | None
    verify: bool
    ca_only: bool
    context: ssl.SSLContext = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        *,
        ca: Pem | Sequence[Pem] | None = None,
        cert: Pem | Sequence[Pem] | None = None,
        key: Pem | None = None,
        passphrase: str | bytes | None = None,
        server_name: str | None = None,
        verify: bool = True,
        ca_only: bool = False,
    ) -> None:
        chain = _contents(cert, "tls.cert")
        vars(self).update(
            ca=_contents(ca, "tls.ca"),
            cert=b"\n".join(chain) if chain else None,
            key=None if key is None else _content(key, "tls.key"),
            passphrase=_passphrase(passphrase),
            server_name=_server_name(server_name),
            verify=_switch(verify, "tls.verify", 'True or False; to trust a certificate: tls=TLS(ca="-----BEGIN ...")'),
            ca_only=_switch(ca_only, "tls.ca_only", "True or False"),
        )
        _check_parts(self)
        vars(self)["context"] = _context(self)

    def __repr__(self) -> str:
        own = f"cert={redact.MASK!r}, key={redact.MASK!r}, " if self.cert else ""
        return (
            f"TLS(ca=<{len(self.ca)} given>, {own}server_name={self.server_name!r}, verify={self.verify}, "
            f"ca_only={self.ca_only})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A context cannot be copied; it is made again.
        names = ("ca", "cert", "key", "passphrase", "server_name", "verify", "ca_only")
        return _rebuilt, ({name: getattr(self, name) for name in names},)


@cache
def system_context() -> ssl.SSLContext:
    """Return the context of connections without options of their own: it trusts what the system trusts."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def explain(error: ssl.SSLError) -> str:
    """Return what went wrong in a few words."""
    verify = getattr(error, "verify_message", "")
    reason = (error.reason or "it ended").lower().replace("_", " ")
    return f"TLS: {reason}{f', {verify}' if verify else ''}"


def _refused(option: str, allowed: str = "", *, reason: str = "", hint: str = "") -> OptionsError:
    """Return the error for material that cannot be used; what it says is never shown, as it may be a key."""
    return OptionsError(option, None, allowed, hint, reason=reason, secret=True)


def _rebuilt(options: dict[str, Any]) -> TLS:
    return TLS(**options)


def _contents(given: object, option: str) -> tuple[bytes, ...]:
    if given is None:
        return ()
    if isinstance(given, (list, tuple)):
        return tuple(_content(item, f"{option}[{number}]") for number, item in enumerate(given))
    return (_content(given, option),)


def _content(given: object, option: str) -> bytes:
    hint = f"give the PEM text: {option}=Path(...).read_text()"
    if isinstance(given, os.PathLike):
        raise _refused(option, reason="it is a path", hint=hint)
    if not isinstance(given, (str, bytes)):
        raise OptionsError(option, type(given).__name__, 'PEM content, text or bytes: "-----BEGIN ..."')
    content = given.encode(errors="replace") if isinstance(given, str) else given
    if _BEGIN in content:
        return content
    if 0 < len(content) <= _LONGEST_PATH and not content.count(b"\n"):
        raise _refused(option, reason="it looks like a path", hint=hint)
    raise _refused(option, 'PEM content: "-----BEGIN ..."', reason="it holds no PEM block")


def _passphrase(given: object) -> bytes | None:
    if given is None:
        return None
    if not isinstance(given, (str, bytes)):
        raise OptionsError("tls.passphrase", type(given).__name__, "text or bytes")
    content = given.encode(errors="replace") if isinstance(given, str) else given
    if not 0 < len(content) <= _LONGEST_PASSPHRASE:
        raise _refused("tls.passphrase", f"1 to {_LONGEST_PASSPHRASE} bytes")
    return content


def _server_name(given: object) -> str | None:
    if given is None:
        return None
    form = 'a host name without scheme and port: "api.example"'
    if not isinstance(given, str) or not given or set(given) & set("/?#@\\[]%"):
        raise OptionsError("tls.server_name", given if isinstance(given, str) else type(given).__name__, form)
    try:
        return address.parse(f"https://[{given}]" if ":" in given else f"https://{given}").origin.host.rstrip(".")
    except InvalidRequest:
        raise OptionsError("tls.server_name", given, form) from None


def _switch(given: object, option: str, form: str) -> bool:
    if not isinstance(given, bool):
        raise OptionsError(option, redact.text(repr(given)[:80]), form)
    return given


def _check_parts(tls: TLS) -> None:
    if tls.cert is not None and tls.key is None:
        raise _refused("tls.cert", reason="it comes without its private key", hint="give tls.key too")
    if tls.key is not None and tls.cert is None:
        raise _refused("tls.key", reason="it comes without its certificate", hint="give tls.cert too")
    if tls.passphrase is not None and tls.key is None:
        raise _refused("tls.passphrase", reason="there is no key that it could open")
    if tls.ca_only and not tls.ca:
        raise OptionsError("tls.ca_only", True, reason="without tls.ca, no server could be trusted")


def _context(tls: TLS) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if tls.ca_only else ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    for number, content in enumerate(tls.ca):
        _trust(context, content, f"tls.ca[{number}]" if len(tls.ca) > 1 else "tls.ca")
    if tls.cert is not None and tls.key is not None:
        _identify(context, tls.cert, tls.key, tls.passphrase)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _trust(context: ssl.SSLContext, content: bytes, option: str) -> None:
    # Only the blocks: text around them may hold letters that OpenSSL's reader refuses.
    try:
        context.load_verify_locations(cadata=_blocks(content, option, "CERTIFICATE").decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise _refused(option, reason=f"OpenSSL cannot read it as certificates{_why(error)}") from None


def _identify(context: ssl.SSLContext, cert: bytes, key: bytes, passphrase: bytes | None) -> None:
    chain = _blocks(cert, "tls.cert", "CERTIFICATE")
    private = _blocks(key, "tls.key", "PRIVATE KEY")
    asked = False

    def password() -> bytes:
        # Without a callback, OpenSSL would ask on the terminal.
        nonlocal asked
        asked = True
        return passphrase or b""

    try:
        with _file(chain + b"\n" + private + b"\n") as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _refused("tls.key", reason="it is not the key of tls.cert") from None
        if asked and passphrase is None:
            raise _refused("tls.key", reason="it is encrypted", hint="give tls.passphrase") from None
        if asked:
            raise _refused("tls.passphrase", reason="it does not open tls.key") from None
        reason = f"OpenSSL cannot use certificate and key{_why(error)}"
        raise _refused("tls.cert", reason=reason) from None


def _blocks(content: bytes, option: str, kind: str) -> bytes:
    found = [block[0] for block in _BLOCK.finditer(content) if _LABELS[kind].fullmatch(block[1])]
    if not found:
        raise _refused(option, f"a PEM block {kind}", reason="it holds none")
    return b"\n".join(found)


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else None
    return f" ({reason.lower().replace('_', ' ')})" if reason else ""


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Give content a path for as long as OpenSSL reads it: ssl takes certificates and keys from files only."""
    descriptor = _in_memory()
    if descriptor is not None:
        try:
            _write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(prefix="comity-")  # mode 0600
    try:
        try:
            _write(descriptor, content)
        finally:
            os.close(descriptor)
        yield path
    finally:
        Path(path).unlink()


def _in_memory() -> int | None:
    """Return a file that lives in memory, None where there are none, or where no path leads to one."""
    if not hasattr(os, "memfd_create") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.memfd_create("comity", os.MFD_CLOEXEC)
    except OSError:  # a sandbox may forbid the call
        return None


def _write(descriptor: int, content: bytes) -> None:
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
