"""PostgresStore keeps what every store promises."""

from __future__ import annotations

import pytest

from comity.testing import StoreConformance


class TestPostgres(StoreConformance):
    @pytest.fixture
    def stage(self, postgres_stage):
        return postgres_stage
