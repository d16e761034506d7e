"""Numbers that nothing can work with are refused where they are given, by name."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError, StoreError
from comity.service.service import Service
from comity.service.worker import WorkerOptions
from comity.store.records import Retention
from comity.store.sqlite.migrations import migrate


@pytest.mark.parametrize("name", ["slots", "lease", "poll", "sweep", "balance"])
def test_a_worker_needs_slots_and_times(name):
    with pytest.raises(OptionsError, match=f"{name}.*more than 0"):
        WorkerOptions(**{name: 0})


@pytest.mark.parametrize("name", ["keep", "patience", "drain"])
def test_a_service_takes_no_negative_number(name):
    with pytest.raises(OptionsError, match=f"{name}.*0 or more"):
        Service(None, **{name: -1})


@pytest.mark.parametrize("name", Retention.__struct_fields__)
def test_nothing_is_kept_for_a_negative_time(name):
    with pytest.raises(OptionsError, match=f"{name}.*0 ns or more"):
        Retention(**{name: -1})


def test_a_store_in_a_directory_that_is_not_there_says_what_to_do(tmp_path):
    with pytest.raises(StoreError, match="make its directory first"):
        migrate(tmp_path / "nowhere" / "x.db")
