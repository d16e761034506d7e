"""Transport: sends a request once. It retries nothing, follows nothing, queues nothing and keeps no cookies."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from comity.client.request import Request
from comity.client.response import Response
from comity.engine.call import Exchange, Slot
from comity.engine.held import Opened
from comity.errors import InvalidRequest, OptionsError
from comity.policy.timeouts import Timeout


class Transport(Protocol):
    """The wire below a client. `AiohttpTransport` is the default, `comity.testing.ScriptedTransport` another.

    One that has an attribute `extensions`, the names of the request extensions that it knows, is never handed others; see
    `check_extensions`.
    """

    async def send(self, request: Request, limits: Timeout, slot: Slot, /) -> Exchange[Response]:
        """Make one wire attempt and read its whole answer.

        Args:
            request: what to send.
            limits: of the attempt; its clock starts now.
            slot: `sent()` is called right after the first byte was handed to the socket, `answered()` when the answer
                began, `hear()` when its head is there and says anything but 200; the attempt ends within `slot.time_left()`.

        Returns:
            The answer, or the outcome and the error of an attempt that brought no whole one; with it, as `value`, the
            head of an answer whose body is broken, if its status asks for another try. Nothing but a cancellation is
            raised, and that leaves no connection behind; `slot.timings` may tell the phases so far.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection; it may be called again."""
        ...


@runtime_checkable
class Opens(Protocol):
    """A transport that can hand out an answer before its body has come."""

    async def open(self, request: Request, limits: Timeout, slot: Slot, /) -> Exchange[Response] | Opened[Response]:
        """Make one wire attempt up to the answer's head; as `Transport.send` otherwise.

        Returns:
            The answer, whose connection is held until its `exchange` is there; or what an attempt without a head came to.
        """
        ...


def opening(transport: object) -> Opens:
    """Return a transport that can hand out answers while they come.

    Raises:
        OptionsError: it cannot.
    """
    if isinstance(transport, Opens):
        return transport
    raise OptionsError("transport", type(transport).__name__, "one with a method open, to stream")


def check_extensions(transport: object, request: Request) -> None:
    """Refuse a request, before it waits for its turn, whose extensions mean nothing to a transport.

    Raises:
        InvalidRequest: the transport says which it knows, and these are others.
    """
    known = getattr(transport, "extensions", None)
    unknown = [] if known is None else [name for name in request.extensions if name not in known]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise InvalidRequest(f"extensions {names} mean nothing to this transport; leave them out or bring your own")
