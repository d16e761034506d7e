"""HeaderNames: an API's own names, besides the usual ones."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.header_names import HeaderNames
from comity.policy.headers import NO_HINTS, Hints, read_hints
from comity.policy.quotas import Quota
from comity.policy.units import NS

OURS = HeaderNames(
    retry_after="X-Wait",
    limit="X-Calls-Max",
    remaining="X-Calls-Left",
    reset="X-Calls-Reset",
    window="X-Calls-Per",
    unit="calls",
)


def hints(names=OURS, status=200, **fields):
    return read_hints(
        [(name.replace("_", "-"), value) for name, value in fields.items()], status=status, wall=0, names=names
    )


def test_custom_names_are_read_like_the_usual_ones():
    found = hints(X_Calls_Max="100", X_Calls_Left="7", X_Calls_Reset="6m0s", X_Calls_Per="1h")
    assert found.quotas == (Quota("custom", "calls", 100, 7, 360 * NS, 3_600 * NS),)


def test_a_custom_wait_is_read_where_no_usual_one_is_named():
    assert hints(X_Wait="250ms", status=429) == Hints(NS // 4)
    assert hints(X_Wait="5", Retry_After="2", status=429).retry_after == 2 * NS
    assert hints(X_Wait="later", status=429) == NO_HINTS


def test_the_usual_names_stay():
    assert hints(X_RateLimit_Remaining="3").quotas == (Quota("x-ratelimit", remaining=3),)


def test_without_custom_names_they_say_nothing():
    assert hints(names=None, X_Calls_Left="0") is NO_HINTS


@pytest.mark.parametrize("name", ["", "a b", "é", "a:", 5, "x\n"])
def test_what_is_no_header_name_is_refused(name):
    with pytest.raises(OptionsError, match=r"header_names\.reset"):
        HeaderNames(reset=name)


def test_the_unit_is_a_name():
    with pytest.raises(OptionsError, match="unit"):
        HeaderNames(unit="Two Words")
