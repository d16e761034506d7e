"""Decisions as pure functions of their arguments: when to start, when to try again, when to stop."""

from __future__ import annotations
