"""The `comity` command: one file per subcommand."""

from __future__ import annotations
