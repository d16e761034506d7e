"""The `comity` command: one file per subcommand, or for a family of them."""

from __future__ import annotations


def main() -> None:
    """Run the command; the entry point of the installed script."""
    from comity.cli.streams import open_closed

    open_closed()
    from comity.cli.app import app

    app()
