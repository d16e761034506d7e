"""Web: the service over HTTP, as a Starlette application."""

from __future__ import annotations
