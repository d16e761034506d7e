"""Download: one URL into one file, whole or not at all.

Theory. The bytes go into a part file, which takes the name of the file when all are there. When the answer breaks off, the
next request asks for the rest (Range) of the same representation (If-Range with its validator, RFC 9110 section 13.1.5): a
server that has another by now sends it whole, and the part begins anew. A broken answer counts as an attempt of the
download by the same rules as any other, so `retry` says how many there are and what is waited in between.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from comity.client.headers import Given, Headers, checked
from comity.client.part import Part
from comity.client.streamed import StreamedResponse
from comity.engine.clock import Clock
from comity.errors import BadResponse, ConnectionLost, InvalidRequest, OptionsError, StatusError, TimedOut
from comity.policy.attempt import Attempt
from comity.policy.outcome import Outcome
from comity.policy.retry import CallState, Retry, RetryAt, decide
from comity.policy.units import NS, Seconds, duration, plain_function, seconds

Progress = Callable[[int, int | None], object]
"""Is told, after each piece, how many bytes are there and how many there will be (None: the server did not say)."""

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_BRINGING = frozenset({200, 203, 206})
"""The answers to a GET that bring what is wanted. A 202 tells how far it is, and a 204 that there is nothing (RFC 9110
section 15.3): neither is to take the place of a file."""
_OURS = frozenset({"range", "if-range", "accept-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """A file that came whole.

    Args:
        path: where it is.
        size: its bytes.
        resumed_from: bytes that an earlier download had left, 0 when it began anew.
        headers: of the last answer.
        attempts: every send of it.
    """

    path: Path
    size: int
    resumed_from: int
    headers: Headers
    attempts: tuple[Attempt, ...]


Stream = Callable[..., AbstractAsyncContextManager[StreamedResponse]]
"""`AsyncClient.stream`."""


class Download:
    """How one URL becomes a file.

    Args:
        path: of the file; one that is there is replaced when the new one is whole.
        resume: go on with what an earlier download of the same URL left, if the server still has the same.
        checksum: what the file has to be, "sha256:<hex>" or another algorithm of hashlib.
        progress: is told how far it is.
        deadline: seconds for everything, None for no limit.
        retry: how many answers may break off, and what is waited after one.
        clock, draw, sleep: as for `Poll`.
        aside: runs a function that takes a while.

    Raises:
        OptionsError: a value cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        resume: bool,
        checksum: str | None,
        progress: Progress | None,
        deadline: Seconds | None,
        retry: Retry,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        aside: Callable[[Callable[[], Any]], Awaitable[Any]],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._path, self._resume, self._retry = _path(path), resume, retry
        self._digest, self._wanted = _checksum(checksum)
        if progress is not None:
            plain_function(progress, "progress")
        self._progress = progress
        self._limit = duration(deadline, "deadline", minimum=0.001)
        self._clock, self._sleep, self._aside, self._draw = clock, sleep, aside, draw
        self._attempts: list[Attempt] = []

    async def run(self, stream: Stream, url: str, options: Mapping[str, Any]) -> Downloaded:
        """Fetch an absolute URL and return what came.

        Raises:
            OSError: the file cannot be written.
            BadResponse: its checksum or its size is not what was announced.
            RequestError: it could not be fetched; what came stays for the next download when the server named a validator.
        """
        given = checked(options.get("headers") or ())
        ours = sorted(_OURS.intersection(name.lower() for name, _ in given))
        if ours:
            raise InvalidRequest(f"header {ours[0]} is set by download itself; leave it out")
        now = self._clock.now()
        deadline = None if self._limit is None else now + seconds(self._limit)
        state = CallState(idempotent=True, deadline=deadline, started=now)
        with Part(self._path, url, resume=self._resume, digest=self._digest) as part:
            await self._aside(part.open)
            answer: StreamedResponse | None = None
            while answer is None:
                left = {} if deadline is None else {"deadline": max(0.001, (deadline - self._clock.now()) / NS)}
                headers = (*given, ("Accept-Encoding", "identity"), *_ranged(part))
                try:
                    answer = await self._fetch(part, stream("GET", url, **{**options, **left, "headers": headers}))
                except _Broken as broken:
                    await self._go_on(broken, state)
                except StatusError as error:
                    # The range is past the end of what is there now (RFC 9110 section 15.5.17).
                    if error.status_code != 416 or not part.size:
                        raise
                    part.restart()
            await self._finish(part, answer)
            return Downloaded(
                path=self._path,
                size=part.size,
                resumed_from=part.kept,
                headers=answer.headers,
                attempts=tuple(self._attempts),
            )

    async def _fetch(self, part: Part, opening: AbstractAsyncContextManager[StreamedResponse]) -> StreamedResponse:
        answer: StreamedResponse | None = None
        try:
            async with opening as answer:
                if answer.status_code not in _BRINGING:
                    raise answer.error()
                total = _begin(part, answer)
                async for piece in answer.iter_bytes():
                    part.write(piece)
                    if self._progress is not None:
                        self._progress(part.size, total)
            if total is not None and part.size != total:
                wrong = _bad(answer, f"{part.size} bytes came of the {total} that it announced")
                if part.size > total:
                    part.restart()  # no beginning of the file
                raise wrong
        except StatusError as error:
            if answer is not None:
                error.attempts = answer.attempts  # now that its block was left
            raise
        except (BadResponse, ConnectionLost, TimedOut) as error:
            if answer is None or (isinstance(error, TimedOut) and error.phase == "deadline"):
                raise
            self._attempts += error.attempts
            raise _Broken(error) from error
        self._attempts += answer.attempts
        return answer

    async def _go_on(self, broken: _Broken, state: CallState) -> None:
        """Wait until the rest may be asked for, or raise what broke."""
        error = broken.error
        outcome = Outcome(failure="timeout" if isinstance(error, TimedOut) else "truncated")
        state.count(self._retry, outcome)
        decision = decide(self._retry, state, outcome, self._clock.now(), self._draw())
        if not isinstance(decision, RetryAt):
            error.attempts = tuple(self._attempts)
            raise error
        await self._sleep(max(0, decision.at - self._clock.now()) / NS)

    async def _finish(self, part: Part, answer: StreamedResponse) -> None:
        if self._wanted and part.hexdigest() != self._wanted:
            had = part.hexdigest()
            await self._aside(part.remove)
            raise _bad(
                answer, f"the checksum of its {part.size} bytes is {had}, not {self._wanted}; they were thrown away"
            )
        await self._aside(part.finish)


class _Broken(Exception):
    """The body broke off; the rest may be asked for."""

    def __init__(self, error: BadResponse | ConnectionLost | TimedOut) -> None:
        super().__init__(str(error))
        self.error = error


def _begin(part: Part, answer: StreamedResponse) -> int | None:
    """See what an answer brings, and return how many bytes there will be."""
    headers = answer.headers
    if answer.status_code == 206:
        found = _RANGE.fullmatch(headers.get("content-range") or "")
        if not part.size or found is None or not _follows(part.size, found):
            part.restart()
            raise _bad(answer, "it brings another range than was asked for")
        if not _same(part.validator, headers):
            part.restart()
            raise _bad(answer, "it brings a part of another version than the one that is there")
        return None if found[3] == "*" else int(found[3])
    plain = headers.get("content-encoding") is None
    part.restart(_validator(headers) if plain else "")
    length = headers.get("content-length")
    return int(length) if plain and length is not None and length.isdecimal() else None


def _follows(size: int, found: re.Match[str]) -> bool:
    """Return whether a range goes on behind `size` bytes and lies within its whole (RFC 9110 section 14.4)."""
    first, last = int(found[1]), int(found[2])
    return first == size <= last and (found[3] == "*" or last < int(found[3]))


def _same(validator: str, headers: Headers) -> bool:
    """Return whether a part may be put behind what is there; a server that ignores If-Range sends one of any version.

    Parts are of one whole only when they share a strong validator (RFC 9110 section 15.3.7.3). A field that is missing
    says nothing: the server did answer to If-Range.
    """
    named = headers.get("etag" if validator.startswith('"') else "last-modified")
    return named is None or named == validator


def _validator(headers: Headers) -> str:
    """Return what names this representation strongly enough to go on with it: an ETag, else a date well in the past."""
    etag = headers.get("etag") or ""
    if etag:
        return etag if etag.startswith('"') else ""
    changed, date = headers.get("last-modified") or "", headers.get("date") or ""
    return changed if changed and changed != date else ""


def _ranged(part: Part) -> Given:
    if not part.size or not part.validator:
        return ()
    return (("Range", f"bytes={part.size}-"), ("If-Range", part.validator))


def _path(path: object) -> Path:
    if not isinstance(path, (str, os.PathLike)) or not isinstance(name := os.fspath(path), str) or "\0" in name:
        raise OptionsError("path", path, "the path of a file: a text or a Path")
    return Path(name)


def _checksum(checksum: object) -> tuple[Callable[[], Any] | None, str]:
    if checksum is None:
        return None, ""
    form = '"sha256:" and the hexadecimal digest'
    name, _, digest = checksum.partition(":") if isinstance(checksum, str) else ("", "", "")
    name, digest = name.strip().lower(), digest.strip().lower()
    if name not in hashlib.algorithms_guaranteed or not (size := hashlib.new(name).digest_size):
        raise OptionsError("checksum", checksum, form, reason=f"{name[:20]!r} is no algorithm with a fixed size")
    if not re.fullmatch(f"[0-9a-f]{{{2 * size}}}", digest):
        raise OptionsError("checksum", checksum, form, reason=f"{name} has {2 * size} hexadecimal digits")
    return partial(hashlib.new, name), digest


def _bad(answer: StreamedResponse, why: str) -> BadResponse:
    request = answer.request
    return BadResponse(f"{request.line}: the answer cannot be used: {why}", request=request, attempts=answer.attempts)
