"""Ids: UUIDv7, in the order in which they were made."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, strategies as st

from comity.store.ids import Ids, floor

NOW = 1_800_000_000_000_000_000
MS = 1_000_000


@given(st.lists(st.integers(0, 1 << 62), min_size=2, max_size=50))
def test_ids_rise_whatever_the_clock_does(moments):
    ids = Ids()
    made = [ids.new(moment) for moment in moments]
    assert made == sorted(set(made))


@given(st.integers(0, 1 << 62))
def test_an_id_is_a_uuid_of_version_7_that_says_when_it_was_made(moment):
    made = UUID(Ids().new(moment))
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == moment // MS


def test_an_id_is_written_as_uuids_are():
    made = Ids().new(NOW)
    assert str(UUID(made)) == made


def test_more_ids_than_fit_into_a_millisecond_run_on_into_the_next():
    ids = Ids()
    made = [ids.new(NOW) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert (UUID(made[-1]).int >> 80) - NOW // MS == 2


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_the_floor_of_a_moment_parts_those_before_from_those_after(moment, other):
    made = Ids().new(moment)
    assert (made >= floor(other)) == (moment // MS >= other // MS)
