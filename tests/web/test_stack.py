"""Stack: what fails for good in one part is told to whoever runs the service."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn

from comity.web.server import serving
from tests.web.stage import staged


class Odd:
    """A store that says what nobody can read, once it is told to."""

    def __init__(self, store):
        self._store, self.odd = store, False

    def __getattr__(self, name):
        if self.odd and name == "events":
            raise ValueError("no such kind of event")
        return getattr(self._store, name)


async def test_a_feed_that_fails_ends_the_service(tmp_path):
    """Without it nobody would hear of any end, though all seems to work."""
    async with staged(tmp_path, wrap=Odd) as api:
        over = asyncio.create_task(api.stack.over())
        api.store.odd = True
        await api.submit()
        with pytest.raises(ValueError, match="no such kind"):
            await over


async def test_a_server_that_fails_is_told_of(monkeypatch):
    async def fail(self):
        raise OSError("too many open files")

    monkeypatch.setattr(uvicorn.Server, "main_loop", fail)

    async def app(_scope, _receive, _send):
        pass

    with pytest.raises(OSError, match="too many"):
        async with serving(app, host="127.0.0.1", port=0) as served:
            await served.over()
