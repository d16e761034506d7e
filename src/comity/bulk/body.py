"""BodyTemplate: a body with `{column}` in it, as text or as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from comity.errors import OptionsError

Where = Literal["text", "string", "value"]
"""Where a column stands: in plain text, in a string of JSON, or as a value of JSON."""

_ALLOWED = {
    "--json": """JSON with {column} where a column's value goes, such as '{"sku": "{sku}", "count": {count}}'""",
    "--body": "text with {column} where a column's value goes, such as 'sku={sku}'",
}
_IN_TEXT = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_BARE = re.compile(r"\{\s*([^{}\s\":,\[\]][^{}\":,\[\]]*)\}")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)

_encode = msgspec.json.encode
_check = msgspec.json.Decoder(msgspec.Raw).decode


class BodyTemplate:
    r"""Fill `{column}` in a body; where a column can stand, `{{` and `}}` stand for braces.

    In JSON a column within quotes becomes part of the string, escaped as JSON wants it. One without quotes has to hold
    JSON itself: a number, true, null, an object. Braces outside strings are JSON's own.

    Args:
        text: the template.
        option: the option that gave it, "--json" or "--body".

    Raises:
        OptionsError: it is no JSON once its columns are filled, or holds something else in braces.

    Example:
        >>> BodyTemplate('{"sku": "{sku}", "count": {n}}', "--json").fill({"sku": 'a"b', "n": "3"})
        b'{"sku": "a\\"b", "count": 3}'
    """

    def __init__(self, text: str, option: Literal["--json", "--body"]) -> None:
        self.text, self.option = text, option
        self.json = option == "--json"
        self._parts = list(self._of_json(text) if self.json else self._of_text(text, "text"))
        self.columns = tuple(dict.fromkeys(name for _, name, _ in self._parts if name is not None))
        if self.json:
            sample = "".join(literal + _sample(name, where) for literal, name, where in self._parts)
            try:
                _check(sample.encode())
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
                raise self._wrong(f"it is no JSON: {str(error).removeprefix('JSON is malformed: ')}") from None

    def fill(self, values: Mapping[str, Any], *, typed: bool = False) -> bytes:
        """Return the body of one row.

        Args:
            values: column -> value.
            typed: whether the values are JSON's, not a table's text.

        Raises:
            KeyError: a column is missing.
            ValueError: a column has to hold JSON and does not.
        """
        out = bytearray()
        for literal, name, where in self._parts:
            out += literal.encode()
            if name is not None:
                out += _filled(name, values[name], where, typed=typed)
        return bytes(out)

    def _of_json(self, text: str) -> Iterator[tuple[str, str | None, Where]]:
        end = 0
        for string in _STRING.finditer(text):
            yield from _of_values(text[end : string.start()])
            yield from self._of_text(string[0], "string")
            end = string.end()
        yield from _of_values(text[end:])

    def _of_text(self, text: str, where: Where) -> Iterator[tuple[str, str | None, Where]]:
        end = 0
        for found in _IN_TEXT.finditer(text):
            literal, token = text[end : found.start()], found[0]
            end = found.end()
            name = token[1:-1].strip()
            if token in {"{{", "}}"}:
                yield literal + token[0], None, where
            elif name:
                yield literal, name, where
            else:
                raise self._wrong("only the name of a column can stand in braces; {{ and }} stand for braces")
        yield text[end:], None, where

    def _wrong(self, reason: str) -> OptionsError:
        return OptionsError(self.option, self.text, _ALLOWED[self.option], reason=reason)


def _of_values(text: str) -> Iterator[tuple[str, str | None, Where]]:
    end = 0
    for found in _BARE.finditer(text):
        yield text[end : found.start()], found[1].strip(), "value"
        end = found.end()
    yield text[end:], None, "value"


def _sample(name: str | None, where: Where) -> str:
    return "" if name is None else "x" if where == "string" else "0"


def _filled(name: str, value: Any, where: Where, *, typed: bool) -> bytes:
    if where == "value":
        if typed:
            return _encode(value)
        text: bytes = value.strip().encode()
        try:
            return bytes(_check(text))
        except (msgspec.DecodeError, RecursionError):
            raise ValueError(f"column {name!r} is no JSON value; in quotes it would be a string") from None
    plain = value if isinstance(value, str) else _encode(value).decode()
    return _encode(plain)[1:-1] if where == "string" else plain.encode()
