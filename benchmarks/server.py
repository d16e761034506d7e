"""Server: a lean HTTP/1.1 upstream in a process of its own, the judge of the benchmarks.

It answers GETs on kept-alive loopback connections, may enforce at most `limit` requests in any `per` seconds (429 and
Retry-After: 1 above it) and notes when each request arrived, in monotonic nanoseconds. It ends when its standard input is
closed, so it cannot outlive who started it.

    GET /_log      JSON: [[arrival, status], ...] since the last reset
    GET /_reset    forgets arrivals and the window
    GET /big       200 with 100 KB, or 429
    GET anything   200 with a small JSON body, or 429

`delay` makes an answer take a random time up to so many seconds; a random share of it passes before the request is judged,
as on a network, the rest after. `model` is an upstream in the words of `comity simulate --upstream`, here in real time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from benchmarks.loops import runner
from comity import Request
from comity.engine.clock import MONOTONIC
from comity.policy.units import required
from comity.testing import Model

ROOT = Path(__file__).resolve().parents[1]
_END = b"\r\n\r\n"
_BODY = b'{"id":1,"name":"a small answer","tags":["one","two","three"],"ok":true}'
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_ANSWER = _OK % (len(_BODY), _BODY)
_BIG = _OK % (100_000, b'"' + b"x" * 99_998 + b'"')
_REFUSAL = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
_REQUEST = Request("GET", "http://model/")
_WRONG = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Server:
    """A running upstream.

    Args:
        url: where it listens, without a slash at the end.
    """

    url: str

    def log(self) -> list[tuple[int, int]]:
        """Return (arrival in monotonic ns, status) of every request since the last reset."""
        with urllib.request.urlopen(f"{self.url}/_log", timeout=10) as answer:
            return [(arrival, status) for arrival, status in json.load(answer)]

    def reset(self) -> None:
        """Forget arrivals and the window."""
        urllib.request.urlopen(f"{self.url}/_reset", timeout=10).close()


@contextlib.contextmanager
def serving(*, limit: int = 0, per: float = 1.0, delay: float = 0.0, model: str = "") -> Iterator[Server]:
    """Run an upstream in another process for as long as the block lasts.

    Args:
        limit: requests that any `per` seconds may hold; 0 is no limit.
        per: seconds.
        delay: the longest time that an answer takes, seconds.
        model: what it bears instead, in words; it begins anew with each reset.
    """
    limits = [f"--limit={limit}", f"--per={per}", f"--delay={delay}", f"--model={model}"]
    command = [sys.executable, "-m", "benchmarks.server", *limits]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the upstream of the benchmarks did not start")
            yield Server(f"http://127.0.0.1:{int(line)}")
        finally:
            process.stdin.close()
            process.wait(timeout=10)


class Judge:
    """The window and the log, shared by all connections."""

    def __init__(self, limit: int, per: float, delay: float) -> None:
        self.limit, self.per, self.delay = limit, round(per * 1e9), delay
        self.log: list[tuple[int, int]] = []
        self.window: deque[int] = deque()

    def judge(self, now: int) -> bytes:
        """Note a request that arrives at `now`, ns, and return its answer."""
        status = 200
        if self.limit:
            window = self.window
            while window and window[0] <= now - self.per:
                window.popleft()
            if len(window) < self.limit:
                window.append(now)
            else:
                status = 429
        self.log.append((now, status))
        return _ANSWER if status == 200 else _REFUSAL

    def reset(self) -> None:
        """Forget arrivals and the window."""
        self.log.clear()
        self.window.clear()

    def answer(self, path: bytes) -> bytes:
        """Answer one request."""
        if path == b"/_log":
            body = json.dumps(self.log).encode()
            return _OK % (len(body), body)
        if path == b"/_reset":
            self.reset()
            return _ANSWER
        answer = self.judge(time.monotonic_ns())
        return _BIG if path == b"/big" and answer is _ANSWER else answer


class Modelled(Judge):
    """A model and the log.

    Args:
        words: what the model bears.
    """

    def __init__(self, words: str) -> None:
        super().__init__(0, 1.0, 0.0)
        self._words = words
        self._model = Model(words, MONOTONIC)

    def reset(self) -> None:
        """Forget arrivals, and begin anew."""
        super().reset()
        self._model = Model(self._words, MONOTONIC)

    def ask(self) -> tuple[bytes, float]:
        """Note a request that arrives now; return its answer and the seconds until it is to come."""
        answer = self._model(_REQUEST)
        self.log.append((time.monotonic_ns(), answer.status))
        lines = "".join(f"{name}: {value}\r\n" for name, value in dict(answer.headers).items())
        head = f"HTTP/1.1 {answer.status} Modelled\r\nContent-Length: 2\r\n{lines}\r\n{{}}"
        return head.encode(), required(answer.after, "after")


class Connection(asyncio.Protocol):
    """One connection; it answers the requests of a GET client, in order."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._got = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        """Forget it; what is still delayed is dropped."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        self._got += data
        while _END in self._got:
            head, self._got = self._got.split(_END, 1)
            method, _, rest = head.partition(b" ")
            if method != b"GET":
                self._write(_WRONG)
                return
            self._receive(rest.partition(b" ")[0])

    def _receive(self, path: bytes) -> None:
        if isinstance(self._judge, Modelled) and not path.startswith(b"/_"):
            answer, after = self._judge.ask()
            asyncio.get_running_loop().call_later(after, self._write, answer)
            return
        delay = self._judge.delay
        if not delay or path.startswith(b"/_"):
            self._write(self._judge.answer(path))
            return
        whole = random.uniform(0, delay)
        before = random.uniform(0, whole)
        asyncio.get_running_loop().call_later(before, self._arrive, path, whole - before)

    def _arrive(self, path: bytes, after: float) -> None:
        answer = self._judge.answer(path)
        asyncio.get_running_loop().call_later(after, self._write, answer)

    def _write(self, answer: bytes) -> None:
        if self._transport is not None:
            self._transport.write(answer)


async def serve(judge: Judge) -> None:
    """Listen, say on which port, and end with the standard input."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(Connection, judge), "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    server.close()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description="the upstream of the benchmarks")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--per", type=float, default=1.0)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--model", default="")
    options = parser.parse_args()
    judge = Modelled(options.model) if options.model else Judge(options.limit, options.per, options.delay)
    with runner() as loop:
        loop.run(serve(judge))


if __name__ == "__main__":
    main()
