"""The API's description: what it says is so, whatever is asked (schemathesis)."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from comity.web.app import DESCRIPTION, OPERATIONS
from tests.web.stage import staged

DESCRIBED = json.loads(DESCRIPTION)


async def test_the_description_is_served_and_names_every_operation(api):
    status, body, _ = await api.call("GET", "/openapi.json")
    assert (status, body) == (200, DESCRIBED)
    described = {(method.upper(), path) for path, methods in body["paths"].items() for method in methods}
    assert {(each.method, each.path.replace(":path", "")) for each in OPERATIONS} < described


def test_fields_and_bounds_of_a_submission_are_those_that_are_checked():
    """NP-002..006."""
    fields = DESCRIBED["components"]["schemas"]["Submission"]
    assert fields["required"] == ["url", "method"]
    assert set(fields["properties"]["method"]["enum"]) == {"GET", "POST", "PUT", "PATCH", "DELETE"}
    retries, backoff = fields["properties"]["maxRetries"], fields["properties"]["backoffMs"]
    assert (retries["default"], retries["minimum"]) == (5, 1)
    assert (backoff["default"], backoff["minimum"]) == (1000, 100)
    assert fields["additionalProperties"] is False


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """An API in a thread of its own; schemathesis blocks."""
    told: list[str] = []
    up, end = threading.Event(), threading.Event()

    async def serve():
        async with staged(tmp_path_factory.mktemp("api"), max_body=100_000) as api:
            told.append(api.url)
            up.set()
            await asyncio.get_running_loop().run_in_executor(None, end.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    up.wait()
    yield told[0]
    end.set()
    thread.join()


@schemathesis.serializer("application/x-ndjson")
def lines(_, value):
    """Write whatever was made up as text."""
    return str(value).encode()


# The stream of events has no end that a caller could wait for.
SCHEMA = schemathesis.openapi.from_dict(DESCRIBED).exclude(path="/events")


@SCHEMA.parametrize()
@settings(max_examples=6, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
def test_no_answer_is_a_mistake_of_ours_or_undocumented(case, address):
    response = case.call(base_url=address)
    case.validate_response(
        response,
        checks=[
            schemathesis.checks.not_a_server_error,
            schemathesis.specs.openapi.checks.status_code_conformance,
            schemathesis.specs.openapi.checks.content_type_conformance,
            schemathesis.specs.openapi.checks.response_schema_conformance,
        ],
    )
