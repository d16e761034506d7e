"""Fail when a source file is longer than a file that holds one noun should be."""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 500


def too_long(root: Path, limit: int = LIMIT) -> list[str]:
    """Return one line for each Python file under `root` that has more than `limit` lines."""
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sorted(root.rglob("*.py"))}
    return [
        f"{path}: {lines} lines, at most {limit}: split it by noun" for path, lines in counts.items() if lines > limit
    ]


if __name__ == "__main__":
    sys.exit("\n".join(too_long(Path("src"))) or 0)
