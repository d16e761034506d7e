"""Operation: one method of one path: who may call it, what it takes, what it answers.

The application and the API's description are made of the same operations, so neither can say what the other does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from comity.errors import StoreError
from comity.service.submit import field_of
from comity.web.problem import Problem, Refusal, problem, refusal
from comity.web.security import Scope, check
from comity.web.shared import Shared, shared_of

T = TypeVar("T")

Handler = Callable[[Request], Awaitable[Response]]

LOG = logging.getLogger("comity.web")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a query or a header.

    Args:
        name, text: what it is called, and what it says.
        schema: of its value.
        where: "query" or "header".
    """

    name: str
    text: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    where: str = "query"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path.

    Args:
        method, path: `{key:path}` takes slashes too.
        handler: answers; the errors it raises become problems.
        text: what it does.
        answers: by status, the class of its JSON, another media type, or None for no body.
        scope: which a token needs; None: everybody may.
        takes: the class of its JSON, or another media type.
        parameters: of query and headers.
        problems: statuses of refusals of its own; those that any operation has are not named.
        alias: a second path.
    """

    method: str
    path: str
    handler: Handler
    text: str
    answers: Mapping[int, type | str | None]
    scope: Scope | None
    takes: type | str | None = None
    parameters: Sequence[Parameter] = ()
    problems: Sequence[int] = ()
    alias: str | None = None

    @property
    def paths(self) -> list[str]:
        """All its paths."""
        return [self.path] if self.alias is None else [self.path, self.alias]

    def routes(self) -> list[Route]:
        """Return its routes."""
        return [Route(path, self.answer, methods=[self.method]) for path in self.paths]

    async def answer(self, request: Request) -> Response:
        """Return what a request is answered with, an error of its handler too."""
        request.scope["comity.path"] = self.path
        try:
            check(request, shared_of(request).tokens, self.scope)
            self._check_query(request)
            return await self.handler(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer and the log the error
            return answer(error, shared_of(request))

    def _check_query(self, request: Request) -> None:
        if not request.scope["query_string"]:
            return
        known = {each.name for each in self.parameters if each.where == "query"}
        for name in request.query_params:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise Refusal(422, f"there is no such parameter; known here: {listed}", field=name[:100])
            if len(request.query_params.getlist(name)) > 1:
                raise Refusal(422, "the parameter is given twice", field=name)


def answer(error: Exception, service: Shared) -> Response:
    """Return the answer that an error becomes."""
    refused = refusal(error)
    # Of submissions that are refused the log is told already; of reads one is as good as a thousand.
    if isinstance(error, StoreError) and not service.storing.refuses and service.may_say(f"store {error.reason}"):
        LOG.error("the store refused: %s", error)
    if refused is not None:
        return refused.answer()
    LOG.error("a mistake of ours", exc_info=error)
    return problem(Problem(title="Internal Server Error", status=500, detail="a mistake of ours; the log has it"))


def reply(view: msgspec.Struct, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a view as an answer."""
    return Response(msgspec.json.encode(view), status, headers, "application/json")


async def content(request: Request) -> bytes:
    """Return a request's body.

    Raises:
        Refusal: 408, it does not come; 413, as soon as it is longer than allowed; 415, it is not said to be JSON.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise Refusal(415, "the body has to be application/json", field="Content-Type")
    most = shared_of(request).max_body
    told = request.headers.get("content-length", "0")
    if told.isdigit() and int(told) > most:
        raise too_long(most)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(shared_of(request).patience):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_long(most)
                parts.append(part)
    except TimeoutError:
        raise too_late() from None
    return b"".join(parts)


def too_late() -> Refusal:
    """Return the refusal of a body that does not come; the connection ends, as the rest may come yet."""
    return Refusal(408, "the body did not come in time", headers={"Connection": "close"})


def too_long(most: int) -> Refusal:
    """Return the refusal of a submission that is too long; what is left of it is not read, so the connection ends."""
    return Refusal(413, f"a submission may have {most} bytes", headers={"Connection": "close"})


def decoded(text: bytes, kind: type[T]) -> T:
    """Return a request's JSON.

    Raises:
        Refusal: 400, it is no JSON; 422, it is not what is needed.
    """
    try:
        return msgspec.json.decode(text or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(422, str(error), field=field_of(str(error))) from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Refusal(400, f"this is no JSON: {error}") from None
