"""An API for each test."""

from __future__ import annotations

import pytest

from tests.web.stage import staged


@pytest.fixture
async def api(tmp_path):
    async with staged(tmp_path) as served:
        yield served
