"""Retries of two layers: one owns them, and where both do somebody is told."""

from __future__ import annotations

import asyncio
import warnings

import httpx
import httpx2
import openai
import pytest

import comity
from comity import Backoff, Retry, StackedRetries
from comity.integrations.stacked import SOON, Asked, Stacked

FOUR = Retry(retries=3, refusals=0, backoff=Backoff(base=0.001, jitter=None))
REFUSE = {"code": "429", "fail": "99"}
QUESTION = {"model": "small", "messages": [{"role": "user", "content": "Hello"}]}


async def ask(api, url: str, *, retries: int = 2, obeys: bool = False):
    """Ask as an SDK does: again, whatever asks for another try; the best obey when an answer says that it is enough."""
    for _ in range(retries):
        answer = await api.post(url, json=QUESTION)
        if answer.status_code < 429 or (obeys and answer.headers.get("x-should-retry") == "false"):
            return answer
    return await api.post(url, json=QUESTION)


async def test_retries_on_top_of_retries_are_warned_of_once(dropped, server, caplog):
    """RY-01: 12 sends for one call, and the warning says how many there were and what to switch off."""
    api = dropped(retry=FOUR, learn=None, at_a_time=1)
    with pytest.warns(StackedRetries) as caught:
        await ask(api, f"{server.url}/status/429?token=SECRET")
    text = str(caught[0].message)
    assert (len(server.log), len(caught)) == (12, 1)
    assert "failed in 4 sends" in text
    assert "max_retries=0" in text
    assert "retry=0" in text
    assert "SECRET" not in text
    assert [record.message for record in caplog.records if record.name == "comity"] == [text]


async def test_without_retries_above_there_are_four_sends_and_no_warning(dropped, server):
    """RY-01: the documented way."""
    api = dropped(retry=FOUR, learn=None)
    answer = await ask(api, f"{server.url}/status/429", retries=0)
    assert (answer.status_code, len(server.log), len(answer.extensions["comity"].attempts)) == (429, 4, 4)


async def test_without_retries_below_there_is_no_warning(dropped, server):
    """RY-01: the layer above owns them then."""
    api = dropped(retry=0, learn=None, at_a_time=1)
    await ask(api, f"{server.url}/status/503")
    assert len(server.log) == 3


async def test_an_answer_that_was_asked_for_often_enough_says_so(dropped, server):
    """RY-01: whoever obeys the word sends nothing more, so that there is nothing to warn of."""
    api = dropped(retry=FOUR, learn=None, at_a_time=1)
    assert (await ask(api, f"{server.url}/status/429", obeys=True)).status_code == 429
    assert len(server.log) == 4


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("retries", [0, 2])
async def test_the_sdk_of_openai_gives_four_sends_in_a_loop(library, retries, server):
    """RY-01: max_retries=0 as documented; and even with the SDK's own 2, as it obeys x-should-retry."""
    home = {"httpx": comity.httpx, "httpx2": comity.httpx2}[library.__name__]
    http = library.AsyncClient(transport=home.AsyncTransport(retry=FOUR, learn=None))
    options = {"api_key": "k", "base_url": f"{server.url}/flaky/a", "default_query": REFUSE}
    async with openai.AsyncOpenAI(**options, max_retries=retries, http_client=http) as api:
        with pytest.raises(openai.RateLimitError) as caught:
            await api.chat.completions.create(**QUESTION)
    assert len(caught.value.response.extensions["comity"].attempts) == len(server.log) == 4


async def test_the_sdk_of_openai_gives_four_sends_in_a_thread(server):
    """RY-01."""
    http = httpx2.Client(transport=comity.httpx2.Transport(retry=FOUR, learn=None))
    options = {"api_key": "k", "base_url": f"{server.url}/flaky/a", "default_query": REFUSE}
    api = openai.OpenAI(**options, max_retries=0, http_client=http)
    with pytest.raises(openai.RateLimitError):
        await asyncio.to_thread(api.chat.completions.create, **QUESTION)
    await asyncio.to_thread(api.close)
    assert len(server.log) == 4


async def test_the_sdk_of_openai_retrying_lost_connections_is_warned_of(server):
    """RY-01: there is no answer that could say that it was tried often enough."""
    http = httpx2.AsyncClient(transport=comity.httpx2.AsyncTransport(retry=FOUR))
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/reset", max_retries=1, http_client=http) as api:
        with pytest.warns(StackedRetries, match="GET .* failed in 4 sends"), pytest.raises(openai.APIConnectionError):
            await api.models.list()
    assert len(server.log) == 8


ASKED = Asked.of("GET", "https://api.example/x", b"")


def test_another_request_is_no_retry():
    stacked = Stacked()
    stacked.gave_up(ASKED, 4)
    stacked.check(Asked.of("GET", "https://api.example/y", b""))
    stacked.check(Asked.of("GET", "https://api.example/x", b"1"))


def test_another_transport_is_none_of_its_business():
    mine, other = Stacked(), Stacked()
    mine.gave_up(ASKED, 4)
    other.check(ASKED)


def test_a_failure_in_one_send_or_of_a_stream_leaves_no_note():
    stacked = Stacked()
    stacked.gave_up(ASKED, 1)
    stacked.gave_up(Asked.of("GET", "https://api.example/x", None), 4)
    stacked.check(ASKED)


def test_what_is_asked_for_much_later_is_no_retry():
    now = [100.0]
    stacked = Stacked(lambda: now[0])
    stacked.gave_up(ASKED, 4)
    now[0] += SOON + 1
    stacked.check(ASKED)


async def test_another_task_that_asks_for_the_same_is_no_retry():
    stacked = Stacked()
    await asyncio.create_task(asyncio.to_thread(stacked.gave_up, ASKED, 4))
    stacked.check(ASKED)


def test_the_warning_comes_once():
    stacked = Stacked()
    stacked.gave_up(ASKED, 4)
    with pytest.warns(StackedRetries):
        stacked.check(ASKED)
    stacked.gave_up(ASKED, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stacked.check(ASKED)
