"""SqliteStore keeps what every store promises."""

from __future__ import annotations

import pytest

from comity.testing import StoreConformance
from tests.store.sqlite_stage import SqliteStage


class TestSqlite(StoreConformance):
    @pytest.fixture
    def stage(self, tmp_path):
        return SqliteStage(tmp_path)
