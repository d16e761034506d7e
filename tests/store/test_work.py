"""Work: what becomes of a call whose caller is gone."""

from __future__ import annotations

import asyncio

import pytest

from comity.errors import StoreError
from comity.store.work import BaseWriter, Work


class Closing(BaseWriter):
    """A writer that is closed while it carries out its first call."""

    def __init__(self):
        self.works = []

    def _put(self, work):
        if self.works:
            raise StoreError("the store is closed", reason="closed")
        self.works.append(work)


async def test_a_caller_that_is_cancelled_is_told_of_that_though_nothing_can_be_undone_any_more():
    """Whoever cancelled it waits for just that."""
    writer = Closing()
    call = asyncio.ensure_future(writer._do(print, 1, lambda result: Work(print, result)))
    await asyncio.sleep(0)
    writer.works[0].future.set_result(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
