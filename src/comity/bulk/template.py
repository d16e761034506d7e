"""UrlTemplate: a URL with `{column}` in it, filled with percent-encoded values."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from urllib.parse import quote

from comity import redact
from comity.client import address
from comity.errors import InvalidRequest, OptionsError

_ALLOWED = "a URL with {column} where a column's value goes, such as 'https://api.example.com/users/{id}'"


class UrlTemplate:
    """Fill `{column}` in a URL; `{{` and `}}` stand for braces.

    One without columns is the same URL for every row, which then differ in what they send.

    A value is percent-encoded whole, `/` included (RFC 3986 section 2.1), so no value can reach beyond its place.

    Args:
        text: the template, as given with `--url`.

    Raises:
        OptionsError: it holds something else in braces, or makes no URL that can be sent to.

    Example:
        >>> UrlTemplate("https://api.example.com/users/{id}").fill({"id": "a/b c"})
        'https://api.example.com/users/a%2Fb%20c'
    """

    def __init__(self, text: str) -> None:
        self.text = text
        shown = redact.text(text)
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise OptionsError("--url", shown, _ALLOWED, str(error)) from None
        self._parts: list[tuple[str, str | None]] = []
        for literal, name, spec, conversion in parts:
            if name is not None and (not name.strip() or spec or conversion or "." in name or "[" in name):
                raise OptionsError("--url", shown, _ALLOWED, "only the name of a column can stand in braces")
            self._parts.append((literal, name))
        self.columns = tuple(dict.fromkeys(name for _, name in self._parts if name is not None))
        try:
            address.parse(self.fill(dict.fromkeys(self.columns, "1")))
        except InvalidRequest as error:
            raise OptionsError("--url", shown, _ALLOWED, reason=str(error)) from None

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the URL for one row.

        Raises:
            KeyError: a column is missing or empty; an empty value would name another resource.
        """
        out = []
        for literal, name in self._parts:
            out.append(literal)
            if name is not None:
                value = values.get(name, "")
                if not value:
                    raise KeyError(name)
                out.append(quote(value, safe=""))
        return "".join(out)
