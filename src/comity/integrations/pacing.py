"""Pacing: transports that take their turn at comity's engine and send through another transport of their library."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack

from comity.client.options import PolicyOptions, client_policy
from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Settled, Slot
from comity.engine.clock import MONOTONIC, Clock
from comity.engine.hosts import Hosts
from comity.engine.observer import Observe
from comity.engine.stats import Stats
from comity.engine.thread_engine import ThreadEngine
from comity.errors import OptionsError, RequestError
from comity.integrations.bodies import AsyncBody, BlockingBody, Rest
from comity.integrations.course import Course, Sending
from comity.integrations.family import Family
from comity.integrations.stacked import Stacked
from comity.policy.host_rules import PolicyGiven
from comity.policy.options import Policy

Wire = TypeVar("Wire")

_OWN = ("transport", "policy", "hosts", "max_connections", "on_event", "clock")


class _Paced(Generic[Wire]):
    """What transports for loops and for threads have in common."""

    _family: ClassVar[Family]
    _kind: ClassVar[str]

    def __init__(
        self,
        *,
        transport: Wire | None = None,
        policy: Policy | None = None,
        hosts: Mapping[str, PolicyGiven] | None = None,
        max_connections: int | None = 500,
        on_event: Observe | None = None,
        clock: Clock = MONOTONIC,
        **options: Unpack[PolicyOptions],
    ) -> None:
        rules = client_policy(policy, options, _OWN, "Transport")
        self._hosts = Hosts(rules, hosts, max_connections=max_connections, clock=clock, observe=on_event)
        if any(each.hedge for each in self._hosts.rules.policies):
            raise OptionsError(
                "hedge", None, reason="an answer may be streamed here, and what is streamed is sent once"
            )
        self._stacked = Stacked()
        self._inner: Any = self._family.wire(self._kind) if transport is None else transport

    def stats(self) -> Stats:
        """Return how many requests wait and run, and the state of every host."""
        return self._hosts.stats()

    def _course(self, request: Any) -> Course:
        return Course(self._family, self._hosts, self._stacked, request)

    def _result(self, course: Course, got: Any, body: AsyncBody | BlockingBody | None) -> Any:
        """Return the answer that a call stands at, or raise why there is none."""
        if isinstance(got, Settled):
            failure, cause = course.failed(got)
            raise failure from cause
        assert body is not None
        body.held = got
        return course.answer(body.answer, body, body.slot)


class AsyncPacing(_Paced[Wire]):
    """A transport for an event loop of asyncio."""

    _kind = "AsyncHTTPTransport"
    _body: ClassVar[type[AsyncBody]]

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request when its turn has come, and again as the policy says."""
        if self._family.readable(request):
            await request.aread()
        course = self._course(request)
        opened: list[AsyncBody] = []
        try:
            got = await AsyncEngine(self._hosts).open(course.call, partial(self._send, course, opened))
        except RequestError as error:
            raise course.refused(error) from error
        return self._result(course, got, opened[0] if opened else None)

    async def aclose(self) -> None:
        """Refuse what waits or comes, and close the transport below."""
        self._hosts.close()
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._hosts.close()
        await self._inner.__aexit__(kind, error, trace)

    async def _send(self, course: Course, opened: list[AsyncBody], slot: Slot) -> Any:
        """Make one wire attempt up to the head of its answer."""
        sending = Sending(course, slot)
        theirs = course.request.extensions.get("trace")

        async def trace(event: str, info: Mapping[str, Any]) -> None:
            sending.progress.note(event, info)
            if theirs is not None:
                await theirs(event, info)

        limit = asyncio.timeout(sending.limits.left())
        try:
            async with limit:
                answer = await self._inner.handle_async_request(sending.request(trace))
        except self._family.failed as error:
            return sending.failed(error)
        except TimeoutError:
            if limit.expired():
                return sending.failed(sending.overdue())
            raise
        try:
            sending.began(answer)
            if not slot.again:
                opened.append(self._body(course, sending, slot, answer))
                return opened[0]
            rest = Rest(sending)
            with suppress(self._family.failed):  # its connection is lost; the head has decided
                async for piece in answer.stream:
                    if rest.enough(piece):
                        break
            return sending.ended()
        finally:
            if not opened:
                await answer.aclose()


class Pacing(_Paced[Wire]):
    """A transport for threads, any number of them."""

    _kind = "HTTPTransport"
    _body: ClassVar[type[BlockingBody]]

    def handle_request(self, request: Any) -> Any:
        """Send a request when its turn has come, and again as the policy says."""
        if self._family.readable(request):
            request.read()
        course = self._course(request)
        opened: list[BlockingBody] = []
        send: Any = partial(self._send, course, opened)  # what it opens is read by the thread itself
        try:
            got = ThreadEngine(self._hosts).open(course.call, send)
        except RequestError as error:
            raise course.refused(error) from error
        return self._result(course, got, opened[0] if opened else None)

    def close(self) -> None:
        """Refuse what waits or comes, and close the transport below."""
        self._hosts.close()
        self._inner.close()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._hosts.close()
        self._inner.__exit__(kind, error, trace)

    def _send(self, course: Course, opened: list[BlockingBody], slot: Slot) -> Any:
        """Make one wire attempt up to the head of its answer."""
        sending = Sending(course, slot)
        theirs = course.request.extensions.get("trace")

        def trace(event: str, info: Mapping[str, Any]) -> Any:
            sending.progress.note(event, info)
            return None if theirs is None else theirs(event, info)

        try:
            answer = self._inner.handle_request(sending.request(trace))
        except self._family.failed as error:
            return sending.failed(error)
        try:
            sending.began(answer)
            if not slot.again:
                opened.append(self._body(course, sending, slot, answer))
                return opened[0]
            rest = Rest(sending)
            with suppress(self._family.failed):  # its connection is lost; the head has decided
                for piece in answer.stream:
                    if rest.enough(piece):
                        break
            return sending.ended()
        finally:
            if not opened:
                answer.close()
