"""Typed: the JSON body of an answer as a value of the type that the caller names.

msgspec decodes and checks in one pass: dataclasses, TypedDict, NamedTuple, `msgspec.Struct`, the standard containers,
unions, literals, enums, dates, UUIDs and decimals. Fields that the type does not know are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from comity import redact
from comity.client import media
from comity.errors import OptionsError

if TYPE_CHECKING:
    from comity.client.response import Response

_PLACE = re.compile(r"(.*) - at `(.*)`", re.DOTALL)
_LONGEST = 200


def check_type(into: object) -> None:
    """Refuse a type that no JSON value can become.

    Raises:
        OptionsError: it is no type, or holds one (a pydantic model, any plain class) that msgspec cannot build.
    """
    _decoder(into)


def decode(response: Response, into: Any) -> Any:
    """Return the JSON body of an answer as a value of the type `into`, whatever its Content-Type says.

    An answer that has no content by HTTP's rules (204, or to a HEAD) counts as null.

    Raises:
        BadResponse: the body is no JSON, or not of that type; the message names the place, such as "$[3].age".
        OptionsError: `into` is no type that JSON can become.
    """
    decoder = _decoder(into)
    try:
        if response.without_content:
            return msgspec.convert(None, into)
        return _decoded(decoder, response.content, response.headers.get("content-type"))
    except msgspec.ValidationError as error:
        detail = _detail(error)
    except (ValueError, RecursionError) as error:
        detail = f"the body {media.what_is_wrong(response.content, error)}"
    raise response.bad(f"{response.line}, but {detail}") from None


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes, content_type: str | None) -> Any:
    content = media.as_utf8(content, content_type)
    try:
        return decoder.decode(content)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Lone surrogates and numbers beyond a double are JSON by the grammar; the standard parser reads them.
        return msgspec.convert(media.decode_json(content, None), decoder.type)


def _detail(error: msgspec.ValidationError) -> str:
    """Return "$[3].age: expected int, got str"; a value that msgspec quotes is the server's, so it is redacted."""
    found = _PLACE.fullmatch(str(error))
    what, place = (found[1], found[2]) if found else (str(error), "$")
    what = what.replace("`", "")
    return redact.text(f"{place[:_LONGEST]}: {what[:1].lower()}{what[1:_LONGEST]}")


def _decoder(into: object) -> msgspec.json.Decoder[Any]:
    try:
        return _known(into)
    except TypeError:  # it cannot be hashed (Annotated with a mutable argument), or it is refused below
        return _made(into)


def _made(into: object) -> msgspec.json.Decoder[Any]:
    form = "a type that JSON can become: a dataclass, TypedDict, msgspec.Struct, or a list, dict or union of such"
    if into is None or isinstance(into, (str, bytes, int, float)):
        raise OptionsError("into", into, form)
    try:
        strange = next(_strange(inspect.type_info(into), set()), None)
        decoder = msgspec.json.Decoder(into)
    except (TypeError, NameError, ValueError) as error:
        raise OptionsError("into", into, form, reason=str(error)) from None
    if strange is not None:
        raise OptionsError("into", into, form, reason=f"{strange.__qualname__} is none")
    return decoder


_known = lru_cache(maxsize=512)(_made)


def _strange(info: object, seen: set[int]) -> Iterator[type]:
    """Yield the classes within a type that msgspec would only check and cannot build."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, inspect.CustomType):
        yield info.cls
    elif isinstance(info, (tuple, list)):
        for part in info:
            yield from _strange(part, seen)
    elif isinstance(info, (inspect.Type, inspect.Field)):
        for name in info.__struct_fields__:
            yield from _strange(getattr(info, name), seen)
