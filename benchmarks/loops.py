"""Loops: the event loop that speed is measured on, uvloop where there is one."""

from __future__ import annotations

import asyncio


def runner() -> asyncio.Runner:
    """Return a runner on uvloop, or on asyncio's own loop where uvloop is not installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
