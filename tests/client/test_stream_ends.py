"""Streaming: how a block ends that nobody leaves in the usual way, and what memory it takes until then."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import tracemalloc
import warnings
from asyncio.subprocess import PIPE, STDOUT
from concurrent.futures import ThreadPoolExecutor

import pytest

from comity import AsyncClient, Client, ClientClosed
from comity.testing import Upstream
from tests.client.in_threads import InThreads
from tests.client.scripted import OK, Peer, Scripted, ok, packed

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BOTH = pytest.mark.parametrize("kind", [AsyncClient, InThreads], ids=["async", "sync"])
LARGE = 50_000_000


@pytest.fixture
def up():
    with Upstream() as up:
        yield up


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, whatever another test or the shell did to the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def ask_until_refused(api: AsyncClient) -> None:
    while True:
        await api.get("/")


@BOTH
async def test_closing_the_client_waits_for_an_open_block(kind):
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        if (await peer.request()).target != "/slow":
            await peer.send(OK)
            return
        await peer.send(HEAD + b"5\r\nfirst\r\n")
        await go_on.wait()
        await peer.send(b"4\r\nlast\r\n0\r\n\r\n")

    async with Scripted(script) as server:
        api = kind(server.url)
        async with api.stream("GET", "/slow") as response:
            pieces = response.iter_bytes()
            assert await anext(pieces) == b"first"
            closing = asyncio.create_task(api.aclose())
            with pytest.raises(ClientClosed):
                await ask_until_refused(api)
            assert not closing.done()
            go_on.set()
            assert await anext(pieces) == b"last"
        await closing


async def test_a_task_that_closes_the_client_in_its_own_block_ends_that_stream(up):
    async with AsyncClient(up.url) as api, asyncio.timeout(30):
        async with api.stream("GET", "/hang?after=headers") as response:
            await api.with_options(priority=9).aclose()
            with pytest.raises(RuntimeError, match="closed within the block of this stream"):
                await response.read()
        assert api.stats().running == 0


def test_so_does_a_thread(up):
    with Client(up.url) as api:
        with api.stream("GET", "/hang?after=headers") as response:
            api.close()
            with pytest.raises(RuntimeError, match="closed within the block of this stream"):
                response.read()
        assert api.stats().running == 0


async def test_a_block_that_another_task_reads_is_waited_for_by_the_one_that_stands_in_it():
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + b"5\r\nfirst\r\n")
        await go_on.wait()
        await peer.send(b"4\r\nlast\r\n0\r\n\r\n")

    async with Scripted(script) as server:
        api = AsyncClient(server.url)
        async with api.stream("GET", "/") as response:

            async def read() -> list[bytes]:
                pieces = response.iter_bytes()
                got = [await anext(pieces)]
                asyncio.get_running_loop().call_soon(go_on.set)
                return got + [piece async for piece in pieces]

            reading = asyncio.create_task(read())
            await asyncio.sleep(0)
            await api.aclose()
            assert await reading == [b"first", b"last"]


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("reading", [False, True])
def test_ctrl_c_in_a_block_leaves_no_socket_and_no_slot(up, reading):
    def interrupt() -> None:
        up.wait_until(lambda up: up.stats().total.in_flight == 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def wait(api: Client) -> None:
        with api.stream("GET", "/hang?after=headers") as response:
            other.start()
            if reading:
                response.read()
            threading.Event().wait()

    other = threading.Thread(target=interrupt)
    with Client(up.url, concurrency=1) as api:
        with pytest.raises(KeyboardInterrupt):
            wait(api)
        other.join()
        up.wait_until(lambda up: up.stats().total.in_flight == 0)
        assert (api.stats().running, api.stats().queued) == (0, 0)


@pytest.mark.usefixtures("ctrl_c")
def test_a_close_that_ctrl_c_cuts_short_closes_what_rests_and_what_stands_open(up):
    def ask(api: Client) -> None:
        while True:
            api.get("/ok/1")

    def interrupt(api: Client) -> None:
        with pytest.raises(ClientClosed):
            ask(api)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with ThreadPoolExecutor(1) as other, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        api = Client(up.url)
        block = api.stream("GET", "/hang?after=headers")
        other.submit(block.__enter__).result()
        api.get("/ok/1")
        interrupting = threading.Thread(target=interrupt, args=[api])
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            api.close()
        interrupting.join()
        other.submit(block.__exit__, None, None, None).result()
        del api, block
        gc.collect()
        assert [str(each.message) for each in told] == []
        up.wait_until(lambda up: up.stats().total.in_flight == 0)


async def test_a_forgotten_block_gives_back_its_slot_and_its_socket(up):
    async with AsyncClient(up.url, concurrency=1) as api:
        block = api.stream("GET", "/hang?after=headers")
        await block.__aenter__()
        del block
        gc.collect()
        assert (await api.get("/ok/1")).status_code == 200
        await asyncio.to_thread(up.wait_until, lambda up: up.stats().total.in_flight == 0)


def test_threads_may_forget_a_block_too(up):
    with Client(up.url, concurrency=1) as api:
        block = api.stream("GET", "/hang?after=headers")
        block.__enter__()
        with api._thread._lock:  # a destructor may run anywhere, also where its own thread holds a lock
            del block
            gc.collect()
        assert api.get("/ok/1").status_code == 200
        up.wait_until(lambda up: up.stats().total.in_flight == 0)


@pytest.mark.parametrize("framing", ["chunked", "gzip"])
@BOTH
async def test_a_large_body_streams_in_small_memory(kind, framing):
    bomb = ok(packed(bytes(LARGE)), "Content-Encoding: gzip") if framing == "gzip" else b""
    piece = b"%x\r\n%b\r\n" % (50_000, bytes(50_000))

    async def script(peer: Peer) -> None:
        await peer.request()
        if bomb:
            await peer.send(bomb)
            return
        await peer.send(HEAD)
        for _ in range(LARGE // 50_000):
            await peer.send(piece)
        await peer.send(b"0\r\n\r\n")

    async with Scripted(script) as server, kind(server.url) as api:
        tracemalloc.start()
        try:
            async with api.stream("GET", "/") as response:
                sizes = [len(each) async for each in response.iter_bytes()]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (sum(sizes), max(sizes) <= 1024 * 1024) == (LARGE, True)
    assert peak < 4_000_000, peak


FORKED = """
import os, sys
import comity

api = comity.Client(sys.argv[1])
child = None
with api.stream("GET", "/") as response:
    lines = response.iter_lines()
    assert next(lines) == "begun"
    child = os.fork()
    if child == 0:
        try:
            next(lines)
        except RuntimeError as error:
            print(error, flush=True)
    else:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print("child left", flush=True)
        assert list(lines) == ["end"]
if child == 0:
    os._exit(0)
api.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
async def test_a_child_that_leaves_its_parents_block_does_not_end_the_parents_stream():
    """LF-03"""
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nbegun\n\r\n")
        await go_on.wait()
        await peer.send(b"3\r\nend\r\n0\r\n\r\n")

    async with Scripted(script) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-c", FORKED, server.url, stdout=PIPE, stderr=STDOUT
        )
        assert b"before the fork" in await process.stdout.readline()
        assert await process.stdout.readline() == b"child left\n"
        go_on.set()
        assert (await process.stdout.read(), await process.wait()) == (b"", 0)
