"""Client: what is its own beside AsyncClient: threads, event loops, forks, interruptions, and its end."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

import comity
from comity.testing import Upstream

HELPER = "comity-client"


@pytest.fixture
def up():
    with Upstream() as up:
        yield up


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == HELPER]


def together(count: int, call: Callable[[int], object]) -> list[object]:
    """Call from many threads at the same moment; what one raised stands in its place."""
    barrier = threading.Barrier(count)

    def one(number: int) -> object:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(one, number) for number in range(count)]
    return [future.exception() or future.result() for future in futures]


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_requests_are_answered_and_closing_ends_the_pool(up):
    """CP-004"""
    with comity.Client(up.url) as api:
        assert api.get("/ok/7").data == {"id": "7"}
        assert api.get("/ok/7", into=dict[str, str]) == {"id": "7"}
        assert api.request("POST", "/ok/8", json={}).status_code == 200
        assert (api.stats().running, api.stats().queued) == (0, 0)
    assert helpers() == []
    with pytest.raises(comity.ClientClosed):
        api.get("/ok/7")
    api.close()
    assert helpers() == []


def test_a_client_that_was_not_used_starts_no_thread_until_it_is(up):
    api = comity.Client(up.url)
    assert helpers() == []
    api.get("/ok/1")
    assert len(helpers()) == 1
    api.close()


@pytest.mark.parametrize("round_", range(50))
def test_twenty_first_calls_at_once_start_one_thread_and_closing_leaves_none(up, round_):
    """TH-03"""
    with comity.Client(up.url, concurrency=20) as api:
        answers = together(20, lambda number: (api.get(f"/ok/{number}").data["id"], len(helpers())))
        assert answers == [(str(number), 1) for number in range(20)]
    assert helpers() == []


def test_threads_share_the_limits(up):
    """TH-01"""
    rate = comity.Rate("11/200ms", measured="server")
    with comity.Client(up.url, rate=rate, concurrency=32) as api:
        answers = together(32, lambda number: [api.get(f"/ok/{number}").status_code for _ in range(6)])
    assert answers == [[200] * 6] * 32
    assert up.peak("/ok", 0.2) <= 11


def test_closing_lets_what_runs_finish_and_refuses_what_waits(up):
    """CP-004"""
    api = comity.Client(up.url, concurrency=1)
    results: list[object] = []

    def call(target: str) -> None:
        try:
            results.append(api.get(target).status_code)
        except comity.ClientClosed as error:
            results.append(type(error))

    running = threading.Thread(target=call, args=("/delay/300",))
    running.start()
    up.wait_until(lambda up: up.stats().total.in_flight == 1)
    waiting = threading.Thread(target=call, args=("/ok/1",))
    waiting.start()
    while not api.stats().queued:
        waiting.join(0.01)
    assert together(3, lambda _: api.close()) == [None] * 3
    running.join()
    waiting.join()
    assert results == [comity.ClientClosed, 200]
    assert helpers() == []


def test_one_client_serves_inside_running_loops_one_after_another(up):
    """LF-01: as in a notebook, where a loop runs in the same thread."""
    with comity.Client(up.url) as api:

        async def cell() -> int:
            return api.get("/ok/1").status_code

        assert [asyncio.run(cell()) for _ in range(3)] == [200] * 3
        assert len(helpers()) == 1


def test_a_thread_that_waits_for_a_retry_holds_up_no_loop_and_no_other_thread(up):
    """LF-05"""
    ticks = 0

    async def tick(until: asyncio.Task[comity.Response]) -> None:
        nonlocal ticks
        while not (await asyncio.wait([until], timeout=0.01))[0]:
            ticks += 1

    async def main(api: comity.Client) -> None:
        slow = asyncio.create_task(asyncio.to_thread(api.get, "/flaky/a?fail=1&code=503&retry_after=1"))
        await tick(slow)
        assert [attempt.status for attempt in slow.result().attempts] == [503, 200]
        first, second = up.arrivals()
        assert second.at - first.at >= 1_000_000_000

    with comity.Client(up.url) as api:
        asyncio.run(main(api))
    assert ticks >= 50


FORKED = """
import os, sys, threading
import comity

def fifty(api, who):
    for number in range(50):
        assert api.get(f"/ok/{who}-{number}").data == {"id": f"{who}-{number}"}

api = comity.Client(sys.argv[1])
api.get("/ok/warm")
children = []
for who in range(3):
    child = os.fork()
    if child == 0:
        try:
            fifty(api, who)
            assert [t.name for t in threading.enumerate()].count("comity-client") == 1
            api.close()
            assert threading.active_count() == 1
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    children.append(child)
fifty(api, "parent")
results = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
fifty(api, "parent")
api.close()
assert results == [0, 0, 0], results
"""


def test_children_use_connections_and_threads_of_their_own(up):
    """LF-03"""
    done = run(FORKED, up.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    by_connection: dict[int, set[str]] = {}
    for arrival in up.arrivals("/ok/"):
        by_connection.setdefault(arrival.connection, set()).add(arrival.key.partition("-")[0])
    assert sorted(map(sorted, by_connection.values())) == [["0"], ["1"], ["2"], ["parent", "warm"]]


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, whatever another test or the shell did to the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("target", ["/hang", "/flaky/a?fail=1&code=503&retry_after=30"])
def test_ctrl_c_in_a_call_cancels_its_request_and_leaves_nothing_running(up, target):
    def interrupt() -> None:
        up.wait_until(lambda up: up.stats().total.count == 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with comity.Client(up.url, concurrency=1, retry=comity.Retry(max_retry_after=60)) as api:
        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            api.get(target)
        other.join()
        assert (api.stats().running, api.stats().queued) == (0, 0)
        up.wait_until(lambda up: up.stats().total.in_flight == 0)
        assert len(up.arrivals()) == 1
    assert helpers() == []


@pytest.mark.parametrize("streams", [False, True])
def test_a_close_that_is_cut_short_does_not_say_of_what_was_sent_that_it_was_not(up, streams):
    errors: list[Exception] = []

    def post() -> None:
        try:
            if not streams:
                api.post("/hang", content=b"pay")
            else:
                with api.stream("POST", "/hang", content=b"pay") as response:
                    response.read()
        except comity.ComityError as error:
            errors.append(error)

    api = comity.Client(up.url)
    thread = threading.Thread(target=post)
    thread.start()
    up.wait_until(lambda up: up.stats().total.in_flight == 1)
    api._thread.close()  # what Ctrl-C leaves of `close`
    thread.join()
    [error] = errors
    assert not isinstance(error, comity.NotSent)
    assert error.as_dict()["sent"] in ("maybe", "yes")
    assert [attempt.sent for attempt in error.attempts] in (["maybe"], ["yes"])
    assert len(up.arrivals()) == 1
    api.close()


def test_a_client_that_is_forgotten_ends_its_thread_and_connections(up):
    api = comity.Client(up.url)
    api.get("/ok/1")
    [helper] = helpers()
    del api
    gc.collect()
    helper.join(10)
    assert not helper.is_alive()


def test_a_view_keeps_the_thread_of_a_client_that_is_forgotten(up):
    view = comity.Client(up.url).with_options(headers={"X-View": "1"})
    gc.collect()
    assert ["X-View", "1"] in view.get("/echo").data["headers"]
    assert len(helpers()) == 1
    view.close()
    assert helpers() == []


def test_a_program_that_forgets_to_close_ends_quietly(up):
    done = run("import comity, sys; api = comity.Client(sys.argv[1]); print(api.get('/ok/1').status_code)", up.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "200\n", "")


def test_the_callers_functions_are_called_in_the_callers_thread_and_context(up):
    where = ContextVar("where", default="elsewhere")
    seen: set[tuple[str, str]] = set()

    def note(*_: object) -> bool:
        seen.add((where.get(), threading.current_thread().name))
        return False

    def backoff(info: comity.RetryInfo) -> float:
        note()
        return 0.001

    where.set("here")
    rules = comity.Accept("fail", when=note)
    with comity.Client(up.url, on_event=note, retry=comity.Retry(backoff=backoff), accept=rules) as api:
        api.get("/flaky/a?fail=1&code=500")
    assert seen == {("here", threading.current_thread().name)}


def test_an_auth_function_that_calls_the_same_client_is_told_so_instead_of_waiting_for_ever(up):
    api = comity.Client(up.url, auth=lambda request: api.get("/token").data)
    with api, pytest.raises(comity.AuthFailed, match="its own thread"):
        api.get("/ok/1")


def test_a_token_source_serves_threads(up):
    fetched = []

    async def fetch() -> tuple[str, float]:
        await asyncio.sleep(0)
        fetched.append(threading.current_thread().name)
        return "token", 60.0

    with comity.Client(up.url, auth=comity.TokenSource(fetch), concurrency=8) as api:
        answers = together(8, lambda _: ["Authorization", "Bearer token"] in api.get("/echo").data["headers"])
    assert answers == [True] * 8
    assert fetched == [HELPER]


def test_each_method_of_the_asynchronous_client_is_there_and_takes_the_same():
    public = {name for name in dir(comity.AsyncClient) if not name.startswith("_")} - {"aclose"}
    for name in ("__init__", *public):
        own, other = getattr(comity.Client, name), getattr(comity.AsyncClient, name)
        assert inspect.signature(own).parameters == inspect.signature(other).parameters, name


def test_a_client_shows_its_kind_and_address_without_secrets():
    assert repr(comity.Client("http://user:S3CR@h/v1")) == "<Client 'http://***@h/v1'>"


@pytest.mark.parametrize("ordered", [True, False])
def test_many_requests_are_answered_with_few_in_hand(up, ordered):
    read = 0

    def targets():
        nonlocal read
        for number in range(60):
            read += 1
            yield f"/ok/{number}?ms=5"

    with comity.Client(up.url, concurrency=2) as api:
        answers = []
        for answer in api.map(targets(), ordered=ordered):
            answers.append(int(answer.data["id"]))
            assert read - len(answers) <= 8 * 2
    assert sorted(answers) == list(range(60))
    assert not ordered or answers == sorted(answers)
    assert up.stats().total.max_in_flight == 2


def test_failures_of_a_map_are_values_or_end_it(up):
    targets = ["/ok/1", "/status/404", "/ok/2"]
    with comity.Client(up.url) as api:
        answers = list(api.map(targets, ordered=True, errors="return"))
        assert [type(answer) for answer in answers] == [comity.Response, comity.StatusError, comity.Response]
        with pytest.raises(comity.StatusError):
            list(api.map(targets, ordered=True))


def test_the_items_of_a_map_are_read_in_the_callers_thread_and_their_error_comes_last(up):
    def targets():
        yield f"/ok/{threading.current_thread().name}"
        raise LookupError

    async def far():
        yield "/ok/far"

    with comity.Client(up.url) as api:
        answers = api.map(targets())
        assert next(answers).data["id"] == threading.current_thread().name
        with pytest.raises(LookupError):
            next(answers)
        assert [answer.data["id"] for answer in api.map(far())] == ["far"]


def test_leaving_a_map_cancels_what_is_under_way(up):
    with comity.Client(up.url) as api:
        answers = api.map(["/ok/1", *["/hang"] * 5])
        assert next(answers).status_code == 200
        answers.close()
        assert (api.stats().running, api.stats().queued) == (0, 0)


def test_pages_and_polls_block(up):
    with comity.Client(up.url) as api:
        [page] = api.paginate("/ok/1")
        assert page.data == {"id": "1"}
        assert api.poll("/ok/2", into=dict[str, str]) == {"id": "2"}
        looks = iter([False, True])
        assert api.poll("/ok/3", every=0.001, done=lambda _: next(looks)).status_code == 200
