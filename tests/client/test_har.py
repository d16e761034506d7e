"""Har: a HAR 1.2 file of every wire attempt of a client."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from contextlib import nullcontext

import pytest

import comity
from comity.client.async_client import AsyncClient
from comity.client.har import MAX_TEXT
from comity.errors import OptionsError, RequestError
from comity.policy.backoff import Backoff
from comity.policy.hedge import Hedge
from comity.policy.retry import Retry
from comity.testing.scripted_transport import Answer, ScriptedTransport
from comity.testing.upstream import Upstream
from tests.client.scripted import Peer, Scripted, ok

QUICK = Retry(attempts=3, backoff=Backoff(base=0.001, cap=0.001))
SECRETS = ("hunter2", "s3cr3t", "t0k3n", "c00kie", "b0dy")


def entries(path):
    return json.loads(path.read_text())["log"]["entries"]


def scripted(*script):
    return {"base_url": "http://h", "transport": ScriptedTransport(*script), "retry": QUICK}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "calls.har"


async def test_an_answer_is_an_entry_with_all_that_har_asks_for(path):
    """CP-004: what was sent, what came, and how long each phase took."""
    with Upstream() as up:
        async with AsyncClient(up.url) as api:
            with api.har(path):
                await api.post("/ok/1?page=2&q=a%20b", json={"a": 1})
    log = json.loads(path.read_text())["log"]
    assert (log["version"], log["creator"]) == ("1.2", {"name": "comity", "version": comity.__version__})
    (entry,) = log["entries"]
    request, response, timings = entry["request"], entry["response"], entry["timings"]
    assert (request["method"], request["url"]) == ("POST", f"{up.url}/ok/1?page=2&q=a%20b")
    assert request["queryString"] == [{"name": "page", "value": "2"}, {"name": "q", "value": "a b"}]
    assert (request["bodySize"], request["headersSize"], request["cookies"]) == (7, -1, [])
    assert {"name": "Content-Type", "value": "application/json"} in request["headers"]
    assert (response["status"], response["statusText"]) == (200, "OK")
    assert response["content"]["mimeType"].startswith("application/json")
    assert response["content"]["size"] > 0
    assert set(timings) == {"blocked", "dns", "connect", "ssl", "send", "wait", "receive"}
    assert (timings["dns"], timings["ssl"]) == (-1, -1)
    assert timings["connect"] > 0 < timings["wait"]
    assert entry["time"] == pytest.approx(sum(value for value in timings.values() if value > 0), abs=0.01)
    assert entry["startedDateTime"][10::13] == "TZ"
    assert (entry["cache"], entry["_attempt"], entry["_sent"]) == ({}, 1, "yes")
    assert "_error" not in entry


async def test_each_attempt_and_each_hop_is_an_entry(path):
    moved = Answer(302, headers={"Location": "/b?token=t0k3n"})
    async with AsyncClient(**scripted(503, "connect", moved, 200), follow_redirects=True) as api:
        with api.har(path):
            await api.get("/a")
    found = entries(path)
    assert [(each["response"]["status"], each["_attempt"], each["_sent"]) for each in found] == [
        (503, 1, "yes"),
        (0, 2, "no"),
        (302, 3, "yes"),
        (200, 1, "yes"),
    ]
    assert found[1]["response"]["statusText"] == ""
    assert found[1]["_error"].startswith("ConnectFailed: ")
    assert found[1]["_waited"] > 0
    assert found[2]["response"]["redirectURL"] == "/b?token=***"


async def test_a_failed_call_is_recorded_and_what_is_not_open_records_nothing(path):
    async with AsyncClient(**scripted("lost", "lost", "lost", 200)) as api:
        with api.har(path), pytest.raises(RequestError):
            await api.get("/a")
        await api.get("/b")
    assert [each["_error"].partition(":")[0] for each in entries(path)] == ["ConnectionLost"] * 3


async def test_a_view_records_with_its_client(path):
    async with AsyncClient(**scripted(200, 200)) as api:
        with api.har(path):
            await api.with_options(priority=9).get("/a")
            await api.get("/b")
    assert len(entries(path)) == 2


async def test_the_file_is_whole_after_each_entry(path):
    async with AsyncClient(**scripted(lambda request: 200)) as api:
        with api.har(path):
            for count in range(4):
                assert len(entries(path)) == count
                await api.get("/a")


async def test_requests_at_once_are_all_recorded(path):
    async with AsyncClient(**scripted(lambda request: 200)) as api:
        with api.har(path):
            await asyncio.gather(*(api.get(f"/{n}") for n in range(50)))
    assert {each["request"]["url"] for each in entries(path)} == {f"http://h/{n}" for n in range(50)}


async def test_what_is_added_at_the_send_is_recorded_masked(path):
    set_cookie = Answer(headers=[("Set-Cookie", "sid=c00kie")])
    async with AsyncClient(**scripted(set_cookie, 200), auth=comity.Bearer("t0k3n"), cookies=True) as api:
        with api.har(path):
            await api.get("/a")
            await api.get("/b")
    first, second = (each["request"]["headers"] for each in entries(path))
    assert {"name": "Authorization", "value": "***"} in first
    assert {"name": "Cookie", "value": "***"} in second
    assert [secret for secret in SECRETS if secret in path.read_text()] == []


async def test_what_is_added_to_a_streamed_request_is_recorded_masked(path):
    with Upstream() as up:
        async with AsyncClient(up.url, auth=lambda request: {"X-Signature": "s3cr3t", "X-Day": "7"}) as api:
            with api.har(path):
                await api.download("/ok/1", path.with_name("ok"))
    (entry,) = entries(path)
    assert {"name": "X-Signature", "value": "***"} in entry["request"]["headers"]
    assert {"name": "X-Day", "value": "7"} in entry["request"]["headers"]


async def test_what_is_streamed_or_downloaded_has_the_size_that_was_read(path):
    content = Answer(content=b"x" * 5000, headers={"Content-Type": "text/csv"})
    async with AsyncClient(**scripted(content, content, content)) as api:
        with api.har(path):
            async with api.stream("GET", "/a") as response:
                await response.read()
            await api.download("/b", path.with_name("b"))
            async with api.stream("GET", "/c"):
                pass
    whole, downloaded, left = entries(path)
    for each, size in ((whole, 5000), (downloaded, 5000), (left, 0)):
        assert (each["response"]["status"], each["response"]["content"]) == (
            200,
            {"size": size, "mimeType": "text/csv"},
        )
    assert "comment" not in whole
    assert left["comment"] == "its block was left before the end of the body"


async def test_a_stream_that_breaks_is_recorded_once_with_what_came_of_it(path):
    async with AsyncClient(**scripted(Answer(content=b"half", fault="truncated"))) as api:
        with api.har(path):
            async with api.stream("GET", "/a") as response:
                with pytest.raises(RequestError):
                    await response.read()
    (entry,) = entries(path)
    assert (entry["response"]["content"]["size"], entry["_error"]) == (4, "BadResponse: GET: scripted")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_attempt_is_an_entry_with_its_time_so_far(path, streamed):
    async def ask(api: AsyncClient) -> None:
        if not streamed:
            await api.get("/hang")
        async with api.stream("GET", "/hang"):
            pass

    with Upstream() as up:
        async with AsyncClient(up.url) as api:
            with api.har(path):
                task = asyncio.create_task(ask(api))
                await asyncio.to_thread(up.wait_until, lambda up: up.stats().total.in_flight == 1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
    (entry,) = entries(path)
    assert (entry["response"]["status"], entry["_sent"]) == (0, "maybe")
    assert entry["comment"] == "cut short by CancelledError"
    assert entry["timings"]["wait"] > 0


async def test_what_never_came_to_the_wire_is_no_entry(path):
    async with AsyncClient(**scripted(), auth=lambda request: 1 / 0) as api:
        with api.har(path), pytest.raises(RequestError):
            await api.get("/a")
    assert entries(path) == []


async def test_every_send_of_a_hedged_attempt_is_an_entry(path):
    async def serve(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.gone()
        await peer.send(ok(b"x"))

    async with Scripted(serve) as server, AsyncClient(server.url, hedge=Hedge(after=0.05)) as api:
        with api.har(path):
            attempts = (await api.get("/a")).attempts
    won, lost = entries(path)
    assert [(each["_attempt"], each["response"]["status"]) for each in (lost, won)] == [(1, 0), (2, 200)]
    assert (lost["comment"], lost["_sent"]) == ("cut short by CancelledError", "maybe")
    assert lost["timings"]["wait"] > 0
    assert attempts[0].timings.response > 0


@pytest.mark.parametrize("busy", [False, True])
def test_a_block_that_is_forgotten_is_an_entry_wherever_its_destructor_runs(path, busy):
    with Upstream() as up, comity.Client(up.url) as api, api.har(path) as har:
        block = api.stream("GET", "/hang?after=headers")
        block.__enter__()
        with har._lock if busy else nullcontext():
            del block
            gc.collect()
        up.wait_until(lambda up: up.stats().total.in_flight == 0)
        assert len(entries(path)) == (not busy)
    (entry,) = entries(path)
    assert (entry["response"]["status"], entry["_sent"]) == (200, "maybe")
    assert entry["comment"] == "its block was left before the end of the body"


async def test_no_secret_and_no_body_stands_in_the_file(path):
    """BR-07"""
    answer = Answer(
        json={"x": "b0dy"},
        headers=[
            ("Set-Cookie", "sid=c00kie"),
            ("X-Note", "see http://me:hunter2@h/"),
            ("Location", "/?api_key=s3cr3t"),
        ],
    )
    async with AsyncClient(**scripted(answer), auth=comity.Bearer("t0k3n"), cookies=True) as api:
        with api.har(path):
            await api.post(
                "/a?api_key=s3cr3t",
                json={"password": "b0dy"},
                headers={"X-Api-Key": "hunter2", "Cookie": "sid=c00kie"},
                expose_cookies=True,
            )
    text = path.read_text()
    assert [secret for secret in SECRETS if secret in text] == []
    assert {"name": "api_key", "value": "***"} in entries(path)[0]["request"]["queryString"]
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0


async def test_text_bodies_are_written_on_request_up_to_their_bound(path):
    long, image = "x" * (MAX_TEXT + 1), {"Content-Type": "image/png"}
    script = Answer(json={"a": 1}), Answer(content=long.encode()), Answer(content=b"\x89PNG", headers=image)
    async with AsyncClient(**scripted(*script)) as api:
        with api.har(path, bodies=True):
            for _ in script:
                await api.put("/a", content="sent")
    whole, cut, picture = (each["response"]["content"] for each in entries(path))
    assert json.loads(whole["text"]) == {"a": 1}
    assert (len(cut["text"]), cut["size"]) == (MAX_TEXT, MAX_TEXT + 1)
    assert cut["comment"] == f"cut after {MAX_TEXT} of {MAX_TEXT + 1} characters"
    assert "text" not in picture
    assert entries(path)[0]["request"]["postData"] == {"mimeType": "", "text": "sent"}


@pytest.mark.parametrize("there", ["mine", '{"log": "mine"}', '{"log": {"level": 1}}'])
async def test_a_file_that_is_no_har_file_is_left_alone(path, there):
    path.write_text(there)
    async with AsyncClient(**scripted()) as api:
        with pytest.raises(OptionsError, match="it exists and is no HAR file"), api.har(path):
            pass
    assert path.read_text() == there


@pytest.mark.parametrize("name", [".", "no/where.har"])
async def test_a_path_that_cannot_be_used_is_refused(tmp_path, name):
    async with AsyncClient(**scripted()) as api:
        with pytest.raises(OptionsError, match="a new path"), api.har(tmp_path / name):
            pass


async def test_an_empty_file_and_a_har_file_are_replaced(path):
    path.touch()
    async with AsyncClient(**scripted(200, 200, 200)) as api:
        with api.har(path):
            await api.get("/a")
            await api.get("/a")
        with api.har(path):
            await api.get("/b")
    assert [each["request"]["url"] for each in entries(path)] == ["http://h/b"]


async def test_a_recording_goes_on_behind_the_entries_of_an_earlier_one_when_asked(path):
    for first in ("/1", "/2", "/3"):
        async with AsyncClient(**scripted(200, 200)) as api:
            with api.har(path, append=True):
                pass
            with api.har(path, append=True):
                await api.get(first)
                await api.get("/more")
    assert [each["request"]["url"][9:] for each in entries(path)] == ["1", "more", "2", "more", "3", "more"]


async def test_a_har_file_of_another_program_is_not_gone_on_in(path):
    theirs = '{"log": {"version": "1.2", "entries": []}}'
    path.write_text(theirs)
    async with AsyncClient(**scripted(200)) as api:
        with pytest.raises(OptionsError, match="comity did not write it"):
            api.har(path, append=True).__enter__()
    assert path.read_text() == theirs


async def test_a_file_that_another_recording_writes_is_refused_and_left_alone(path):
    async with AsyncClient(**scripted(200, 200)) as api, AsyncClient(**scripted()) as other:
        with api.har(path):
            await api.get("/a")
            for each in (api, other):
                with pytest.raises(OptionsError, match="another recording is writing to it"), each.har(path):
                    pass
            await api.get("/b")
        assert [each["request"]["url"] for each in entries(path)] == ["http://h/a", "http://h/b"]
        with other.har(path):
            pass
    assert entries(path) == []


FULL_DISK = """
import resource, sys
import comity
from comity.testing import ScriptedTransport
api = comity.Client("http://h", transport=ScriptedTransport(lambda request: 200))
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
try:
    with api.har(sys.argv[1]):
        print([api.get("/a").status_code for _ in range(9)])
except comity.StoreError as error:
    print(type(error.__cause__).__name__, error)
try:
    with api.har(sys.argv[1]):
        for _ in range(9):
            api.get("/a")
        raise KeyError("mine")
except KeyError as error:
    print(error.__notes__)
resource.setrlimit(resource.RLIMIT_FSIZE, before)  # others write files at the end of the process
api.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it limits the size of files by setrlimit")
def test_a_file_that_cannot_grow_fails_no_request_stays_whole_and_is_told_once(path):
    command = [sys.executable, "-W", "error", "-c", FULL_DISK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    count = len(entries(path))
    statuses, told, noted = done.stdout.splitlines()
    assert (statuses, 0 < count < 9, done.stderr) == (str([200] * 9), True, "")
    assert told.startswith(f"OSError {path} holds the first {count} attempts of this recording only: ")
    assert "of this recording only" in noted


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_does_not_write_into_its_parents_file(path):
    code = """
import os, sys
import comity
from comity.testing import ScriptedTransport
api = comity.Client("http://h", transport=ScriptedTransport(lambda request: 200))
with api.har(sys.argv[1]):
    child = os.fork()
    if not child:
        api.get("/child")
        os._exit(0)
    os.waitpid(child, 0)
    api.get("/parent")
api.close()
"""
    subprocess.run([sys.executable, "-c", code, str(path)], timeout=60, check=True)
    assert [each["request"]["url"] for each in entries(path)] == ["http://h/parent"]
