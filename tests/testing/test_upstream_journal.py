"""The log, the counters and the peaks."""

from __future__ import annotations

from hypothesis import given, strategies as st

from comity.testing import Upstream
from comity.testing.upstream import peak
from comity.testing.upstream.journal import Arrival, Journal, SlidingPeak
from tests.testing.upstream_client import ask, exchange_bytes, request


@given(times=st.lists(st.integers(0, 50), max_size=30), per=st.integers(1, 30))
def test_the_peak_is_the_largest_naive_count(times, per):
    naive = max((sum(start <= at < start + per for at in times) for start in times), default=0)
    assert peak(times, per) == naive


def test_two_arrivals_exactly_one_window_apart_do_not_share_it():
    assert (peak([0, 10], 10), peak([0, 9], 10)) == (1, 2)


def test_a_peak_holds_no_more_times_than_it_may():
    counter = SlidingPeak(10, keep=3)
    for _ in range(5):
        counter.add(0)
    assert counter.most == 3


def test_the_log_and_the_keys_forget_the_oldest_first():
    journal = Journal(2)
    for number in range(3):
        journal.arrived(Arrival(number, 1, "GET", f"/flaky/{number}", str(number), ""), "/flaky", f"/flaky/{number}")
        journal.judged(f"/limited/{number}", 10, number, accepted=True)
    stats = journal.stats()
    assert [arrival.at for arrival in journal.arrivals()] == [1, 2]
    assert list(stats.keys) == ["/flaky/1", "/flaky/2"]
    assert list(stats.windows) == ["/limited/1", "/limited/2"]
    assert stats.total.count == 3


def test_another_per_starts_the_windows_of_a_key_anew():
    journal = Journal(10)
    for at in range(3):
        journal.judged("/limited/a", 10, at, accepted=False)
    journal.judged("/limited/a", 20, 3, accepted=True)
    window = journal.stats().windows["/limited/a"]
    assert (window.per_ns, window.arrivals, window.accepted, window.refused) == (20, 1, 1, 0)


async def test_an_arrival_is_logged_with_its_answer():
    async with Upstream() as up:
        await ask(up, "/status/404?x=%2F")
        (arrival,) = up.log
    assert (arrival.method, arrival.target, arrival.key) == ("GET", "/status/404?x=%2F", "404")
    assert (arrival.host, arrival.status, arrival.connection) == ("up.test", 404, 1)
    assert arrival.at <= arrival.first_byte <= arrival.finished


async def test_requests_on_one_connection_share_its_number():
    async with Upstream() as up:
        await exchange_bytes(up, request("/ok/1") + request("/ok/2", headers="Connection: close\r\n"))
        await ask(up, "/ok/3")
        assert [arrival.connection for arrival in up.log] == [1, 1, 2]
        assert up.stats().connections == 2


async def test_the_log_is_filtered_by_the_start_of_the_target():
    async with Upstream() as up:
        for target in ("/ok/1", "/status/204", "/ok/2"):
            await ask(up, target)
        shown = (await ask(up, "/_log?path=/ok")).json()
        assert [arrival["target"] for arrival in shown] == ["/ok/1", "/ok/2"]
        assert [arrival.target for arrival in up.arrivals("/ok")] == ["/ok/1", "/ok/2"]


async def test_the_log_over_http_holds_every_arrival_however_many():
    async with Upstream() as up:
        assert (await ask(up, "/_log")).json() == []
        await exchange_bytes(up, request("/ok/1") * 1200 + request("/ok/2", headers="Connection: close\r\n"))
        shown = (await ask(up, "/_log")).json()
    assert len(shown) == 1201
    assert {"at", "connection", "method", "target", "key", "status", "first_byte"} <= shown[0].keys()


async def test_looking_at_the_log_and_the_stats_counts_for_nothing():
    async with Upstream() as up:
        await ask(up, "/_log")
        stats = (await ask(up, "/_stats")).json()
    assert stats["total"] == {"count": 0, "in_flight": 0, "max_in_flight": 0}


async def test_the_stats_show_totals_peaks_and_the_fullest_windows():
    async with Upstream() as up:
        for _ in range(3):
            await ask(up, "/limited/a?n=2&per=100")
        stats = (await ask(up, "/_stats")).json()
        assert up.peak("/limited/a", 100) == 3
    assert stats["statuses"] == {"200": 2, "429": 1}
    assert stats["paths"]["/limited"]["count"] == 3
    assert stats["keys"]["/limited/a"] == {"count": 3, "in_flight": 0, "max_in_flight": 1}
    assert stats["windows"]["/limited/a"] == {"per_ns": 100 * 10**9, "arrivals": 3, "accepted": 2, "refused": 1}


async def test_delete_forgets_the_log_the_counters_and_the_limits():
    async with Upstream() as up:
        await ask(up, "/limited/a?n=1")
        await ask(up, "/_log", method="DELETE")
        assert up.log == []
        assert up.stats().total.count == 0
        assert (await ask(up, "/limited/a?n=1")).status == 200


async def test_delete_can_keep_the_limits():
    async with Upstream() as up:
        await ask(up, "/limited/a?n=1&per=1000")
        await ask(up, "/_log?state=keep", method="DELETE")
        assert (await ask(up, "/limited/a?n=1&per=1000")).status == 429


async def test_header_fields_and_bodies_are_logged_on_request():
    async with Upstream(capture=True) as up:
        await ask(up, "/status/503", method="PUT", headers="Idempotency-Key: k\r\n", body=b"abc")
        (arrival,) = up.log
    assert ("Idempotency-Key", "k") in arrival.headers
    assert arrival.body == b"abc"
