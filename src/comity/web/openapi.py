"""The API's description (OpenAPI 3.1), made of the operations and of the classes that they take and answer with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

import comity
from comity.web.operation import Operation
from comity.web.problem import Problem

_ALWAYS = (422, 500, 503)
_WITH_SCOPE = (401, 403)
_REF = "#/components/schemas/{name}"


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the description of operations."""
    operations = list(operations)
    kinds: list[type] = [Problem]
    for each in operations:
        kinds += [kind for kind in (each.takes, *each.answers.values()) if isinstance(kind, type)]
    kinds = list(dict.fromkeys(kinds))
    (*schemas,), components = msgspec.json.schema_components(kinds, ref_template=_REF)
    named = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        for path in filter(None, (each.path, each.alias)):
            paths.setdefault(re.sub(r":path\}", "}", path), {})[each.method.lower()] = _operation(each, path, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "comity",
            "version": comity.__version__,
            "description": "Durable delivery of HTTP requests: stored first, then sent at the pace that their targets allow.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(each: Operation, path: str, named: Mapping[type, Any]) -> dict[str, Any]:
    statuses = {*_ALWAYS, *each.problems, *(_WITH_SCOPE if each.scope else (403,))}
    told: dict[str, Any] = {
        "operationId": f"{each.method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', path).rstrip('_')}",
        "summary": each.text,
        "responses": {
            **{str(status): _answer(status, kind, named) for status, kind in each.answers.items()},
            **{str(status): _problem(status, named) for status in sorted(statuses)},
        },
    }
    parameters = [_path_parameter(name) for name in re.findall(r"\{(\w+)", path)]
    parameters += [
        {"name": one.name, "in": one.where, "description": one.text, "schema": dict(one.schema)}
        for one in each.parameters
    ]
    if parameters:
        told["parameters"] = parameters
    if each.takes is not None:
        told["requestBody"] = {"required": True, "content": _content(each.takes, named)}
    if each.scope is not None:
        told["security"] = [{"token": [each.scope]}, {}]
    return told


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _answer(status: int, kind: type | str | None, named: Mapping[type, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    return said if kind is None else said | {"content": _content(kind, named)}


def _content(kind: type | str, named: Mapping[type, Any]) -> dict[str, Any]:
    if isinstance(kind, str):
        return {kind: {"schema": {"type": "string"}}}
    return {"application/json": {"schema": named[kind]}}


def _problem(status: int, named: Mapping[type, Any]) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {"application/problem+json": {"schema": named[Problem]}},
    }
