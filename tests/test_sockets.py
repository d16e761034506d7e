"""The guard over the tests' sockets bites, and leaves an event loop alone."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tests.sockets import SocketBlocked, SocketGuard, is_local, may_use_loopback

ELSEWHERE = ("192.0.2.1", 80)


@pytest.mark.parametrize(
    "target", [("127.0.0.1", 80), ("127.9.9.9", 80), ("::1", 80, 0, 0), ("localhost", 80), (None,), "/run/x.sock"]
)
def test_this_machine_is_local(target):
    assert is_local(target)


@pytest.mark.parametrize(
    "target", [ELSEWHERE, ("0.0.0.0", 80), ("", 80), ("2001:db8::1", 80, 0, 0), ("example.com", 80), (b"example.com",)]
)
def test_other_machines_and_all_interfaces_are_not_local(target):
    assert not is_local(target)


@pytest.mark.parametrize(
    ("path", "allowed"), [("client/test_run.py", True), ("policy/test_rate.py", False), ("test_sockets.py", False)]
)
def test_the_directory_decides(path, allowed):
    assert may_use_loopback(Path("tests", path), Path("tests")) is allowed


def test_a_test_outside_those_directories_cannot_connect_even_to_loopback(socket_guard):
    with pytest.raises(SocketBlocked, match="no socket at all"):
        socket.create_connection(("127.0.0.1", 9))
    socket_guard.violations.clear()


def test_a_test_outside_those_directories_cannot_bind(socket_guard):
    with socket.socket() as listener, pytest.raises(SocketBlocked):
        listener.bind(("127.0.0.1", 0))
    socket_guard.violations.clear()


def test_a_test_inside_those_directories_can_bind_loopback_but_not_reach_elsewhere(socket_guard):
    with socket_guard.allowing(loopback=True), socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        with pytest.raises(SocketBlocked, match="loopback only"):
            one.connect(ELSEWHERE)
        socket_guard.violations.clear()


def test_a_name_of_another_machine_is_not_looked_up(socket_guard):
    with socket_guard.allowing(loopback=True):
        with pytest.raises(SocketBlocked):
            socket.getaddrinfo("example.com", 80)
        socket_guard.violations.clear()


def test_a_violation_that_the_code_under_test_swallowed_fails_the_test_at_its_end():
    guard = SocketGuard()
    rule = guard.allowing(loopback=True)
    rule.__enter__()
    with pytest.raises(SocketBlocked):
        guard.audit("socket.connect", (None, ELSEWHERE))
    with pytest.raises(SocketBlocked, match=r"socket.connect \('192.0.2.1', 80\)"):
        rule.__exit__(None, None, None)


def test_an_event_loop_wakes_across_threads_without_a_blocked_call():
    assert asyncio.run(asyncio.to_thread(lambda: 7)) == 7
