"""The `.env` file of the working directory."""

from __future__ import annotations

import re
from pathlib import Path

from comity.errors import OptionsError
from comity.settings import content

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


def dotenv(path: Path) -> dict[str, str]:
    """Return the variables of a `.env` file; none when it is not there.

    Lines are NAME=VALUE, also after `export`; quotes around a value are taken off; # begins a comment on a line of its own.

    Raises:
        OptionsError: a line is none of these, or the file cannot be read.
    """
    found: dict[str, str] = {}
    if not path.is_file():
        return found
    for number, line in enumerate(content(path, ".env").splitlines(), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        match = _LINE.fullmatch(plain)
        if match is None:
            raise OptionsError(f"{path}:{number}", None, "NAME=VALUE", secret=True)
        name, value = match[1], match[2].strip()
        found[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    return found
