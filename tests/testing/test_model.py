"""Model: an upstream in virtual time answers as its words say."""

from __future__ import annotations

import pytest

from comity import OptionsError, Request
from comity.testing import Answer, Model, VirtualClock

REQUEST = Request("GET", "http://model/")


def ask(words: str, count: int, *, every: float = 0.0) -> tuple[Model, list[tuple[float, Answer]]]:
    """Return when each answer comes, and the answer, to requests that arrive `every` seconds."""
    clock = VirtualClock()
    model, began = Model(words, clock, seed=7), clock.now()
    found: list[tuple[float, Answer]] = []
    for number in range(count):
        clock.move_to(began + round(number * every * 1e9))
        answer = model(REQUEST)
        found.append((number * every + float(answer.after), answer))
    return model, found


def statuses(found: list[tuple[float, Answer]]) -> list[int]:
    return [answer.status for _, answer in found]


def fields(answer: Answer) -> dict[str, str]:
    return dict(answer.headers)


def test_a_bucket_bears_its_burst_and_then_its_rate():
    model, found = ask("bucket 10/s burst 3 latency 1ms", 30, every=0.05)
    assert (model.accepted, model.refused) == (17, 13)
    assert statuses(found)[:8] == [200, 200, 200, 200, 200, 429, 200, 429]
    assert fields(found[5][1]) == {"Retry-After": "1"}


def test_a_bucket_without_a_size_holds_one_second():
    model, _ = ask("bucket 10/s", 15)
    assert (model.accepted, model.refused) == (10, 5)


def test_a_window_slides_and_a_fixed_one_does_not():
    assert ask("window 2/s", 4, every=0.4)[0].accepted == 3
    assert ask("fixed 2/s", 4, every=0.4)[0].accepted == 3
    assert statuses(ask("window 2/s", 6, every=0.4)[1]) == [200, 200, 429, 200, 200, 429]
    assert statuses(ask("fixed 2/s", 6, every=0.4)[1]) == [200, 200, 429, 200, 200, 200]


def test_slots_make_the_others_wait_and_over_the_queue_refuse():
    _, found = ask("slots 1 queue 1 latency 100ms", 3)
    assert [(at, answer.status) for at, answer in found] == [(0.1, 200), (0.2, 200), (0.1, 503)]


def test_what_holds_changes_at_its_time():
    _, found = ask("latency 10ms at 1s window 1/min latency 20ms", 4, every=0.6)
    assert [(round(at, 2), answer.status) for at, answer in found] == [
        (0.01, 200),
        (0.61, 200),
        (1.22, 200),
        (1.82, 429),
    ]


def test_quotas_are_announced_and_hints_can_be_left_out():
    _, found = ask("fixed 2/min announces draft hint no", 3)
    assert fields(found[0][1])["RateLimit"] == '"default";r=1;t=60'
    assert found[2][1].status == 429
    assert "Retry-After" not in fields(found[2][1])
    _, found = ask("bucket 1/s burst 5 announces x", 1)
    assert fields(found[0][1])["X-RateLimit-Limit"] == "5"
    assert fields(found[0][1])["X-RateLimit-Remaining"] == "4"


def test_errors_and_jitter_are_the_same_for_the_same_seed():
    first, second = (ask("errors 50% latency 10ms jitter 10ms", 20)[1] for _ in range(2))
    assert first == second
    assert set(statuses(first)) == {200, 500}
    assert all(0.01 <= at <= 0.02 for at, _ in first)


@pytest.mark.parametrize(
    ("words", "took", "expected"),
    [
        ("bucket 10/s burst 5", 2.0, 25),
        ("window 10/s", 2.0, 30),
        ("slots 2 latency 100ms", 2.0, 40),
        ("bucket 10/s burst 5 slots 1 latency 1s", 2.0, 7),
        ("bucket 10/s burst 5 at 1s bucket 20/s", 2.0, 35),
        ("bucket 10/s burst 5 at 5s bucket 20/s", 2.0, 25),
        ("latency 1s", 2.0, None),
    ],
)
def test_what_it_bears_in_a_time_is_known(words, took, expected):
    found = Model(words, VirtualClock()).capacity(int(took * 1e9))
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("bukket 40/s", "one of bucket, window"),
        ("bucket", "needs a value"),
        ("bucket 40", "a count per time"),
        ("bucket 40tokens/s", "requests alone"),
        ("slots 0", "1 or more"),
        ("queue -1", "0 or more"),
        ("errors 2", "a share such as 2%"),
        ("errors 200%", "a share such as 2%"),
        ("announces loudly", "draft, x or old"),
        ("hint maybe", "yes or no"),
        ("latency soon", "a duration"),
        ("at 2s latency 1s at 1s", "rise"),
    ],
)
def test_a_wrong_word_is_named(words, named):
    with pytest.raises(OptionsError, match="--upstream") as caught:
        Model(words, VirtualClock())
    assert named in str(caught.value)
