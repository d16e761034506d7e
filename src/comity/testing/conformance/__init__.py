"""StoreConformance: what every store promises, as tests to be run on it.

A subclass gives the fixture `stage`; pytest does the rest, with asynchronous tests turned on (`asyncio_mode = "auto"`).

    class TestSqlite(StoreConformance):
        @pytest.fixture
        def stage(self, tmp_path):
            return SqliteStage(tmp_path)
"""

from __future__ import annotations

from comity.testing.conformance.crashes import Crashes
from comity.testing.conformance.failing import Failing
from comity.testing.conformance.fences import Fences
from comity.testing.conformance.idle import Idle
from comity.testing.conformance.keys import Keys
from comity.testing.conformance.lanes import Lanes
from comity.testing.conformance.life import Life
from comity.testing.conformance.ordered import Ordered
from comity.testing.conformance.owners import Owners
from comity.testing.conformance.reading import Reading
from comity.testing.conformance.retention import Keeping
from comity.testing.conformance.schedules import Schedules
from comity.testing.conformance.stage import Stage
from comity.testing.conformance.walk import Walk

__all__ = ["Stage", "StoreConformance"]


class StoreConformance(
    Life, Keys, Fences, Lanes, Owners, Crashes, Reading, Keeping, Idle, Ordered, Failing, Schedules, Walk
):
    """All of them."""
