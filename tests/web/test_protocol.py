"""Protocol: what is read from a connection as a request, and what is refused. All of it is said over a socket, byte by byte."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from comity.web.protocol import LONGEST_HEAD, MOST_AHEAD
from comity.web.server import serving

HOST = b"Host: a\r\n"
POST = b"POST /x HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
LONG = b"y" * (LONGEST_HEAD + 1)

REFUSED = {
    "length and coding": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "a hexadecimal length": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "a length beyond 64 bits": POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "a blank before the colon": POST + b"Content-Length : 3\r\n\r\nabc",
    "another coding before": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "another coding behind": POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding behind a control": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks of HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk's size with a prefix": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk's size beyond 64 bits": CHUNKED + b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "LF behind a chunk's size": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "LF in a chunk's extension": CHUNKED + b"3;a\nxx\r\nabc\r\n0\r\n\r\n",
    "a chunk longer than it says": CHUNKED + b"3\r\nabcX\r\n0\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare CR": b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
    "a folded line": POST + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "another's URL": b"GET http://b/x HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment": b"GET /x#y HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT": b"CONNECT a:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target beyond ASCII": b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL": b"GET / HTTP/1.1\r\nX: a\x00b\r\n" + HOST + b"\r\n",
    "a name that is no token": b"GET / HTTP/1.1\r\nX@: a\r\n" + HOST + b"\r\n",
    "a long field": b"GET / HTTP/1.1\r\n" + HOST + b"X: " + LONG + b"\r\n\r\n",
    "many fields": b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 4_000,
}

ENDLESS = (b"GET /", b"GET / HTTP/1.1\r\nX: ", CHUNKED + b"3;", CHUNKED + b"3\r\nabc\r\n0\r\nX: ")


class App:
    """Notes each request that is read whole, and answers it with 201."""

    def __init__(self):
        self.seen = []
        self.fields = []

    async def __call__(self, scope, receive, send):
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.seen.append((scope["method"], scope["path"], body))
        self.fields.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected(served):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()


async def told(served, sent):
    """Return the statuses that are answered until the service ends the connection."""
    async with connected(served) as (reader, writer):
        writer.write(sent)
        answer = await reader.read()
    return [int(each[:3]) for each in answer.split(b"HTTP/1.1 ")[1:]]


async def said(app, sent):
    """Return what a service of its own tells."""
    async with serving(app, host="127.0.0.1", port=0) as served:
        return await told(served, sent)


async def test_what_others_may_read_differently_is_refused_and_ends_the_connection():
    app = App()
    async with serving(app, host="127.0.0.1", port=0) as served:
        answers = [await told(served, sent + NEXT) for sent in REFUSED.values()]
    assert dict(zip(REFUSED, answers, strict=True)) == {name: [400] for name in REFUSED}
    assert app.seen == []


async def test_nothing_that_does_not_end_is_kept():
    async with serving(App(), host="127.0.0.1", port=0) as served:
        assert [await told(served, begun + LONG) for begun in ENDLESS] == [[400]] * len(ENDLESS)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (POST + b"Content-Length: 3\r\n\r\nabc", ("POST", "/x", b"abc")),
        (CHUNKED + b"3;a=b\r\nabc\r\n0\r\nHost: b\r\n\r\n", ("POST", "/x", b"abc")),
        (b"GET /a%20b?c=d HTTP/1.1\r\n" + HOST + b"X: y \t\r\n\r\n", ("GET", "/a b", b"")),
    ],
)
async def test_what_comes_in_pieces_is_read_as_what_comes_at_once(sent, read):
    app = App()
    async with serving(app, host="127.0.0.1", port=0) as served, connected(served) as (reader, writer):
        for at in range(len(sent)):
            writer.write(sent[at : at + 1])
            await writer.drain()
        writer.write(NEXT)
        assert (await reader.read()).count(b"HTTP/1.1 201") == 2
    assert app.seen == [read, ("GET", "/next", b"")]
    assert app.fields[0][b"host"] == b"a"
    assert not app.fields[0].get(b"x", b"").endswith((b" ", b"\t"))


@pytest.mark.parametrize(
    "body", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
async def test_an_offer_of_another_protocol_changes_nothing_of_how_a_body_is_read(body):
    app = App()
    assert await said(app, POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + body + NEXT) == [201, 201]
    assert app.seen == [("POST", "/x", b"abc"), ("GET", "/next", b"")]


async def test_a_request_that_was_whole_gets_its_own_answer_when_what_follows_cannot_be_read():
    assert await said(App(), POST + b"Content-Length: 3\r\n\r\nabc" + b"no request\r\n\r\n") == [201]


async def test_no_more_than_so_many_requests_wait_on_a_connection():
    assert await said(App(), (b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n") * (MOST_AHEAD + 2)) == [201]


async def test_an_answer_is_told_that_nobody_reads_it_though_another_request_waits_behind_it():
    gone, begun = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send):
        await receive()
        begun.set()
        await receive()
        gone.set()

    async with serving(app, host="127.0.0.1", port=0) as served, connected(served) as (_, writer):
        writer.write((b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n") * 2)
        await begun.wait()
        writer.transport.abort()
        await gone.wait()
