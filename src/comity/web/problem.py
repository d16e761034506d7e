"""Problem: every error as application/problem+json (RFC 9457); the one place where errors become answers.

400       a body that is no JSON
401, 403  no known token; a token without the scope, a page of another site
404, 410  there is no such delivery; not any more
405, 409  not with this method; not in this state
408, 413  the body does not come; it is longer than a submission may be
415, 422  no JSON by its Content-Type; a field, parameter or header that is not known or whose value cannot be used, a key
          that stood for something else
429, 503  the queue is full; the store is down, or the service stops
500       a mistake of ours, of which the log has the rest
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from comity.errors import ComityError, OptionsError, StoreError
from comity.service.submit import Refused
from comity.service.terms import camel

STORE_RETRY = 5
"""Seconds after which a store that is down is worth another try."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong (RFC 9457)."""

    title: str
    status: int
    detail: Annotated[str, Meta(description="What was wrong with this request, and what to do.")]
    field: Annotated[str | None, Meta(description="Which field or header is meant.")] = None


class Refusal(ComityError):
    """A request is refused.

    Args:
        status: of the answer.
        detail: what is wrong, without secrets.
        field: what is meant, when it is one thing.
        headers: of the answer.
    """

    def __init__(
        self, status: int, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.field, self.headers = status, field, dict(headers or {})

    @property
    def problem(self) -> Problem:
        """What the answer's body says."""
        return Problem(title=HTTPStatus(self.status).phrase, status=self.status, detail=str(self), field=self.field)

    def answer(self) -> Response:
        """Return the answer."""
        return problem(self.problem, self.headers)


def problem(told: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as an answer."""
    return Response(msgspec.json.encode(told), told.status, headers, "application/problem+json")


def refusal(error: Exception) -> Refusal | None:
    """Return the refusal that an error means, or None when it is a mistake of ours."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Refused):
        return Refusal(400 if error.malformed else 422, str(error), field=error.field)
    if isinstance(error, OptionsError):
        return Refusal(422, str(error), field=camel(error.option))
    if isinstance(error, StoreError):
        # What the database says may name files of this machine; the log has it.
        said = f"the store does not take part now ({error.reason}); nothing of this request was stored: try again"
        return Refusal(503, said, headers={"Retry-After": str(STORE_RETRY)})
    return None
