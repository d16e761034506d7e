"""JSON path: where in a JSON value something stands, such as "meta.next", "items[0].id" or "$.error.code"."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final

from comity.errors import OptionsError

_STEP = r"[^.\[\]\s]+"
_PATH = re.compile(rf"(?:\$|{_STEP}|\[[0-9]{{1,9}}\])(?:\.{_STEP}|\[[0-9]{{1,9}}\])*")
_LONGEST = 500


class Missing(Enum):
    """Stands for "nothing there", where None is a JSON null."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


class JsonPath:
    """A checked path: names and places in lists, joined by dots; places may stand in brackets.

    Args:
        text: the path.
        option: the option's name, for the message.

    Raises:
        OptionsError: it is no such path.

    Example:
        >>> JsonPath("items[0].id", "next").find({"items": [{"id": 7}]})
        7
    """

    __slots__ = ("_steps", "text")

    def __init__(self, text: object, option: str) -> None:
        if not isinstance(text, str) or len(text) > _LONGEST or not _PATH.fullmatch(text):
            raise OptionsError(option, text, 'a path into JSON such as "meta.next" or "items[0].id"')
        self.text = text
        steps = text.replace("[", ".").replace("]", "").strip(".").split(".")
        self._steps = tuple(steps[1:] if steps[0] == "$" else steps)

    def find(self, value: Any) -> Any:
        """Return what stands there, MISSING when nothing does."""
        for step in self._steps:
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                return MISSING
        return value

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return repr(self.text)
