"""Adaptive: the options of adaptive control, checked by value and against the host's limit."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.adaptive import Adaptive


def test_ema_has_the_documented_defaults():
    """CP-014..021: useTTFB true, ignoreBelow 100 ms, ratio 2, breachLimit 2, increaseStep 1, factor 0.9, minimum 1."""
    ema = Adaptive(algorithm="ema")
    assert (ema.use_ttfb, ema.ignore_below, ema.congestion_ratio) == (True, 0.1, 2.0)
    assert (ema.breach_limit, ema.increase_step, ema.decrease_factor) == (2, 1, 0.9)
    assert (ema.min_concurrency, ema.initial_concurrency) == (1, None)
    assert ema.ignore_below_ns == 100_000_000


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, None),
        (False, None),
        (True, Adaptive()),
        ("auto", Adaptive()),
        ("ema", Adaptive(algorithm="ema")),
        (Adaptive(min_concurrency=2), Adaptive(min_concurrency=2)),
    ],
)
def test_a_short_form_stands_for_an_algorithm_with_its_defaults(given, meant):
    assert Adaptive.of(given) == meant


@pytest.mark.parametrize("given", [1, 0.5, "vegas", ["auto"]])
def test_what_is_no_algorithm_is_refused(given):
    with pytest.raises(OptionsError, match="adaptive"):
        Adaptive.of(given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("use_ttfb", False),
        ("ignore_below", 0.2),
        ("congestion_ratio", 3.0),
        ("breach_limit", 3),
        ("increase_step", 2),
        ("decrease_factor", 0.5),
    ],
)
def test_an_option_of_ema_alone_is_refused_with_auto_by_a_message_that_names_both(name, value):
    with pytest.raises(OptionsError, match=rf"adaptive\.{name}.*adaptive\.algorithm"):
        Adaptive(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("decrease_factor", 0), ("decrease_factor", 1), ("decrease_factor", 1.5), ("decrease_factor", "0.9"),
        ("congestion_ratio", 1), ("congestion_ratio", 0.5), ("breach_limit", 0), ("increase_step", 0), ("ignore_below", -1),
        ("use_ttfb", 1), ("min_concurrency", 0), ("initial_concurrency", 0),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_refused_by_name(name, value):
    """CP-019: decreaseFactor must be > 0 and < 1."""
    with pytest.raises(OptionsError, match=name):
        Adaptive(algorithm="ema", **{name: value})


@pytest.mark.parametrize(
    ("options", "concurrency", "names"),
    [
        ({"min_concurrency": 11}, 10, r"min_concurrency.*concurrency=10"),
        ({"initial_concurrency": 11}, 10, r"initial_concurrency.*concurrency=10"),
        ({"initial_concurrency": 2, "min_concurrency": 3}, 10, r"initial_concurrency.*min_concurrency=3"),
        ({"initial_concurrency": 2, "min_concurrency": 3}, None, r"initial_concurrency.*min_concurrency=3"),
        ({"algorithm": "ema"}, None, r"concurrency.*adaptive\.algorithm"),
    ],
)
def test_options_that_do_not_fit_the_limit_are_refused_by_both_names(options, concurrency, names):
    """CP-020, CP-021: a minimum above the limit, or an initial value outside the two, is a configuration error."""
    with pytest.raises(OptionsError, match=names):
        Adaptive(**options).check(concurrency)


@pytest.mark.parametrize("concurrency", [3, 10, None])
def test_options_within_the_limit_pass(concurrency):
    Adaptive(min_concurrency=2, initial_concurrency=3).check(concurrency)
