"""errors: every error says what it knows, and takes it along wherever it goes."""

from __future__ import annotations

import copy
import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context

import pytest

from comity import errors
from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response
from comity.errors import ComityError, NotSent, OptionsError, StatusError
from comity.policy.attempt import Attempt

REQUEST = Request("POST", "https://api.example/x", json={"a": 1}, idempotency_key="k")
RESPONSE = Response(429, Headers([("Retry-After", "7")]), b"wait", request=REQUEST)
FIELDS = {
    "message": "what happened",
    "sent": "maybe",
    "phase": "idle",
    "rule": "loopback",
    "seconds": 2.5,
    "waited": 1.5,
    "needed": 4.0,
    "until": datetime(2030, 1, 2, tzinfo=UTC),
    "retry_after": 7.0,
    "response": RESPONSE,
}
COMMON = {"request": REQUEST, "attempts": (Attempt(number=1, started_at=1.0, waited=0.0, status=429),)}
TREE = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ComityError)]


def made(kind):
    """Return an error of a kind with every field that its constructor knows."""
    if kind in {ComityError, errors.BadSignature, errors.StoreError, errors.LeaseLost}:
        return kind(FIELDS["message"])
    if kind is OptionsError:
        return kind("rate", "fast", "a rate", "say how often", reason="no number")
    wanted = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in FIELDS.items() if name in wanted}, **COMMON)


def all_of(error):
    """Return everything that an error says."""
    return type(error), str(error), error.args, {name: repr(value) for name, value in vars(error).items()}


@pytest.mark.parametrize("through", [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", TREE)
def test_every_error_survives_pickling_and_copying(kind, through):
    error = made(kind)
    other = through(error)
    assert other is not error
    assert all_of(other) == all_of(error)


def test_an_answer_in_an_error_comes_along_whole():
    error = pickle.loads(pickle.dumps(StatusError("no", response=RESPONSE, request=REQUEST)))
    assert (error.status_code, error.body, error.headers["retry-after"]) == (429, "wait", "7")
    assert (error.request.content, error.request.headers) == (REQUEST.content, REQUEST.headers)
    with pytest.raises(AttributeError, match="cannot be changed"):
        error.request.method = "GET"


def refuse():
    raise made(errors.RateLimited)


def test_an_error_comes_back_from_another_process():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(errors.RateLimited, match="what happened") as caught:
            pool.submit(refuse).result(60)
        assert caught.value.until == FIELDS["until"]
        assert pool.submit(abs, -1).result(60) == 1


def test_what_may_be_a_secret_is_neither_shown_nor_kept():
    error = OptionsError("headers", {"Authorization": "Bearer hunter2"}, reason="no text", secret=True)
    assert str(error) == "headers cannot be used: no text"
    assert "hunter2" not in repr(vars(error))


@pytest.mark.parametrize("kind", [kind for kind in TREE if issubclass(kind, NotSent)])
def test_an_error_of_what_was_not_sent_says_so(kind):
    assert made(kind).sent == "no"
