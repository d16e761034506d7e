"""Ways to the wire other than a plain connection: proxies, transports of one's own, answers that nobody wants."""

from __future__ import annotations

import asyncio

import httpx
import pytest

import comity
from comity import Backoff, Retry
from tests.client.scripted import Peer, Scripted, answer, status

THRICE = Retry(attempts=3, backoff=Backoff(base=0.001, jitter=None))


def wire(api, **options):
    """Return a transport of the library's own, of the kind of `api`."""
    kind = api.library.HTTPTransport if api.threads else api.library.AsyncHTTPTransport
    return kind(**options)


async def test_a_proxys_refusal_is_no_send(dropped):
    """What the proxy was sent, a CONNECT, is none of the request."""
    async with Scripted(answer(status(403))) as proxy:
        probe = dropped()
        api = dropped(transport=wire(probe, proxy=proxy.url), retry=THRICE)
        with pytest.raises(api.library.ProxyError) as caught:
            await api.post("https://nowhere.example/x", json=1)
    cause = caught.value.__cause__
    assert isinstance(cause, comity.ConnectFailed)
    assert [each.sent for each in cause.attempts] == ["no"] * 3
    assert [each.line.split()[0] for each in proxy.seen] == ["CONNECT"] * 3


async def test_a_wire_that_is_entered_and_left_is_so_with_the_transport(dropped):
    """A transport below that has a setup of its own gets it."""
    happened: list[str] = []

    class Own(httpx.AsyncHTTPTransport):
        async def __aenter__(self):
            happened.append("in")
            return await super().__aenter__()

        async def __aexit__(self, *ended):
            happened.append("out")
            await super().__aexit__(*ended)

    async with httpx.AsyncClient(transport=comity.httpx.AsyncTransport(transport=Own())):
        assert happened == ["in"]
    assert happened == ["in", "out"]


class Body(httpx.AsyncByteStream):
    """A body in pieces, of which it counts those that were taken; it may end in an error."""

    def __init__(self, pieces: int, error: Exception | None = None) -> None:
        self.pieces, self.error, self.taken, self.closed = pieces, error, 0, False

    async def __aiter__(self):
        for _ in range(self.pieces):
            self.taken += 1
            yield bytes(1024)
        if self.error is not None:
            raise self.error

    async def aclose(self):
        self.closed = True


@pytest.mark.parametrize(
    ("body", "taken"),
    [(Body(10), 10), (Body(1000), 65), (Body(3, httpx.ReadError("cut")), 3)],
    ids=["short", "long", "cut"],
)
async def test_an_answer_that_nobody_wants_is_read_as_far_as_it_is_short_and_always_closed(body, taken):
    answers = iter([httpx.Response(503, stream=body), httpx.Response(200)])
    transport = comity.httpx.AsyncTransport(transport=httpx.MockTransport(lambda _: next(answers)), retry=THRICE)
    async with httpx.AsyncClient(transport=transport) as api:
        assert (await api.get("http://nowhere.example/")).status_code == 200
    assert (body.taken, body.closed) == (taken, True)


async def test_a_body_that_is_cancelled_is_closed_and_its_slot_free():
    begun = asyncio.Event()

    class Endless(Body):
        async def __aiter__(self):
            yield b"first"
            begun.set()
            await asyncio.Event().wait()

    body = Endless(0)
    transport = comity.httpx.AsyncTransport(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, stream=body)), concurrency=1
    )
    async with httpx.AsyncClient(transport=transport) as api:
        reading = asyncio.create_task(api.get("http://nowhere.example/"))
        await begun.wait()
        assert transport.stats().running == 1
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert (body.closed, transport.stats().running) == (True, 0)


async def test_a_connection_that_ends_before_the_whole_request_was_taken_may_have_brought_it(dropped):
    async def half(peer: Peer) -> None:
        await peer.request(body=False)
        peer.reset()

    async with Scripted(half) as server:
        api = dropped(retry=THRICE)
        with pytest.raises(api.library.TransportError) as caught:
            await api.post(server.url, content=bytes(16 * 1024 * 1024))
    assert caught.value.__cause__.sent in {"maybe", "yes"}  # "yes" where the system took all before it heard of the end
    assert len(caught.value.__cause__.attempts) == 1


async def test_a_host_in_unicode_and_an_ipv6_address_have_limiters_by_their_names_on_the_wire(dropped):
    api = dropped()
    own = dropped(transport=api.library.MockTransport(lambda _: api.library.Response(200)))
    for url in ("https://bücher.example/", "http://[::1]:8471/", "https://API.example:443/"):
        await own.get(url)
    assert set(own.transport.stats().hosts) == {"xn--bcher-kva.example", "[::1]:8471", "api.example"}


async def test_a_broken_coding_leaves_the_estimate_and_is_the_readers_to_see(dropped):
    api = dropped()
    broken = {"Content-Encoding": "gzip", "Content-Type": "application/json"}

    def reply(_):
        return api.library.Response(200, headers=broken, stream=api.library.ByteStream(b"no gzip"))

    own = dropped(
        transport=api.library.MockTransport(reply),
        rate="10 tokens/h",
        usage={"tokens": "usage.total"},
        queue_timeout=0.01,
    )
    with pytest.raises(api.library.DecodingError):
        await own.get("http://nowhere.example/", extensions={"comity": {"cost": {"tokens": 5}}})
    assert own.transport.stats().running == 0


async def test_a_function_of_the_answer_says_what_it_cost(dropped):
    api = dropped()
    own = dropped(
        transport=api.library.MockTransport(lambda _: api.library.Response(200, json={"spent": 10})),
        rate="10 tokens/h",
        usage=lambda answer: {"tokens": answer.json()["spent"]},
        queue_timeout=0.01,
    )
    cost = {"comity": {"cost": {"tokens": 1}}}
    await own.get("http://nowhere.example/", extensions=cost)
    with pytest.raises(api.library.PoolTimeout):
        await own.get("http://nowhere.example/", extensions=cost)
