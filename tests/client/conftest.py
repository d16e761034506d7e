"""What touches the wire is tested on both event loops, and what a call says and comes to with both clients."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest
import uvloop

from comity.testing.virtual_clock import VirtualClock
from tests.client.in_threads import InThreads

BOTH = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ON_THE_WIRE = {
    "test_async_client", "test_client_retries", "test_client_turns", "test_dial", "test_layer", "test_proxy", "test_timeouts",
    "test_tls", "test_transport",
}  # fmt: skip


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item):
    """Return the loops that a test runs on."""
    return BOTH if item.path.stem in ON_THE_WIRE else {"asyncio": asyncio.new_event_loop}


WITH_BOTH_CLIENTS = {
    "test_accept", "test_async_client", "test_auth", "test_client_retries", "test_cookies", "test_download",
    "test_har", "test_hedge", "test_plain_values", "test_presets", "test_proxy", "test_redirects", "test_stream", "test_timeouts",
    "test_tls",
}  # fmt: skip
"""Tests of these modules take their client from the module's name AsyncClient; it stands for Client the second time."""

OF_TASKS = {"asyncio", "under_way"}
"""What tests speak of that arrange the order of tasks in one loop; threads have none."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests that make a client with each of the two."""
    if metafunc.module.__name__.rpartition(".")[2] not in WITH_BOTH_CLIENTS:
        return
    spoken_of = names(metafunc.function)
    if "AsyncClient" in spoken_of and not spoken_of & OF_TASKS:
        metafunc.parametrize("client_in_use", ["async", "sync"], indirect=True)


def names(function: Callable[..., object]) -> set[str]:
    """Return the global names that a function speaks of."""
    return set(inspect.unwrap(function).__code__.co_names)


@pytest.fixture
def clock() -> VirtualClock:
    """Return the time of tests that do not wait for it."""
    return VirtualClock()


@pytest.fixture(autouse=True)
def client_in_use(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let AsyncClient stand for the client that the test is run with."""
    if getattr(request, "param", "async") == "sync":
        monkeypatch.setattr(request.module, "AsyncClient", InThreads)
