"""App: the service as an ASGI application."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from comity.web import health, live, operating, reading, scheduling, taking
from comity.web.openapi import describe
from comity.web.operation import LOG, Operation
from comity.web.problem import Refusal
from comity.web.security import WHO
from comity.web.shared import SHARED, Shared


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAPI 3.1 document."""

    openapi: str
    info: dict[str, str]


async def _description(_: Request) -> Response:
    return Response(DESCRIPTION, media_type="application/json")


OPERATIONS: tuple[Operation, ...] = (
    *taking.OPERATIONS,
    # Before the paths that take any id.
    *operating.OPERATIONS,
    *scheduling.OPERATIONS,
    *reading.OPERATIONS,
    *live.OPERATIONS,
    *health.OPERATIONS,
    Operation(
        method="GET",
        path="/openapi.json",
        handler=_description,
        text="This description.",
        scope=None,
        answers={200: Description},
    ),
)

DESCRIPTION = msgspec.json.encode(describe(OPERATIONS))
"""What /openapi.json says."""


def create_app(service: Shared) -> ASGIApp:
    """Return the application.

    Args:
        service: what all handlers share; its feed is open as long as the application serves.
    """
    routes: list[BaseRoute] = [route for each in OPERATIONS for route in each.routes()]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return Counted(app, service)


class Counted:
    """Counts every answer, and logs it at INFO when somebody listens.

    A line has method, path (of the description, so no secrets), status and milliseconds; who asked, by the name of the token; and
    the id or key in the path of what there is.

    An operation whose path has no parts of its own is found here: it needs none of what an application does to find others and
    to make answers of their errors, which is a quarter of what a submission costs before the store.
    """

    def __init__(self, app: ASGIApp, service: Shared) -> None:
        self._app, self._service = app, service
        self._found = {(each.method, path): each for each in OPERATIONS for path in each.paths if "{" not in path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic_ns(), 0
        scope[SHARED] = self._service
        found = self._found.get((scope["method"], scope["path"]))

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if found is None:
                await self._app(scope, receive, watched)
            else:
                response = await found.answer(Request(scope, receive, watched))
                await response(scope, receive, watched)
        finally:
            method, path = scope["method"], scope.get("comity.path", "(none)").replace(":path}", "}")
            if path == "(none)" and method not in {"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS"}:
                method = "(other)"  # whoever calls makes up no endless names of metrics
            self._service.meter.count(method, path, status)
            if LOG.isEnabledFor(logging.INFO):
                took = (time.monotonic_ns() - began) // 1_000_000
                fields = {"method": method, "path": path, "status": status, "ms": took}
                if WHO in scope:
                    fields["who"] = scope[WHO]
                if 200 <= status < 400:  # else a name may be anything
                    fields |= scope.get("path_params", {})
                LOG.info("%s %s %d in %d ms", method, path, status, took, extra={"fields": fields})


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = {404: "there is no such path; /openapi.json tells all", 405: "this path has no such method"}
    detail = told.get(error.status_code, HTTPStatus(error.status_code).phrase)
    return Refusal(error.status_code, detail, headers=error.headers).answer()
