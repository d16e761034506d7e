"""The guard over the tests' sockets: loopback in the directories whose subject is a real connection, nothing elsewhere.

An audit hook sees every bind, connect, datagram and name lookup of this process, whatever library makes it; it cannot be taken
out again, so it asks `GUARD` each time. Event loops wake themselves through a socketpair, which does none of these.
uvloop and processes of their own are not seen.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOPBACK_DIRECTORIES = {"bulk", "cli", "client", "docs", "integrations", "service", "store", "testing", "web"}
ADDRESSED = {"socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg"}
LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname"}


class SocketBlocked(BaseException):
    """A test touched a network that it may not; not an Exception, so that no retry under test can swallow it."""


class SocketGuard:
    """What sockets may do now. Outside a test (fixtures of a module, say) loopback is allowed."""

    def __init__(self) -> None:
        self.loopback = True
        self.violations: list[str] = []

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        """Raise SocketBlocked and remember it when `event` reaches further than allowed."""
        if event in ADDRESSED:
            target = arguments[1]
        elif event in LOOKUPS:
            target = (arguments[0],)
        else:
            return
        if not (self.loopback and is_local(target)):
            self.violations.append(f"{event} {target}")
            reach = "loopback only" if self.loopback else "no socket at all"
            raise SocketBlocked(f"{event} {target}: this test may use {reach}")

    @contextmanager
    def allowing(self, *, loopback: bool) -> Iterator[SocketGuard]:
        """Hold one rule for the length of a test; fail it afterwards if a violation was swallowed."""
        before, self.loopback = self.loopback, loopback
        self.violations.clear()
        try:
            yield self
        finally:
            self.loopback = before
        if self.violations:
            raise SocketBlocked("; ".join(self.violations))


def is_local(target: object) -> bool:
    """Tell whether `target`, a socket address, stays on this machine: a path, a loopback address, or its name."""
    if not isinstance(target, tuple):
        return True  # AF_UNIX: a path, or None for a peer already connected
    host = target[0]
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_use_loopback(test: Path, tests: Path) -> bool:
    """Tell whether the directory of `test` under `tests` is one whose subject is a real connection."""
    return test.relative_to(tests).parts[0] in LOOPBACK_DIRECTORIES


GUARD = SocketGuard()
sys.addaudithook(GUARD.audit)
