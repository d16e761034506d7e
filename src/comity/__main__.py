"""`python -m comity`: the same as the installed command."""

from __future__ import annotations

from comity.cli import main

if __name__ == "__main__":
    main()
