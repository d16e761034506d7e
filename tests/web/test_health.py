"""Health: numbers are told, also while the store is down."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from comity.errors import StoreError
from comity.policy.units import NS
from comity.web.storing import Storing
from tests.web.stage import LANE, PLAIN, DownStore, staged

SAMPLE = r"{}{}(?:\{{(?:\w+=\"(?:[^\"\\\n]|\\[\"\\n])*\",?)+\}})? [0-9.e+-]+"


async def test_metrics_tell_of_queues_and_of_a_store_that_is_down(tmp_path):
    async with staged(tmp_path, wrap=DownStore) as api:
        await api.submit()
        lines = (await api.call("GET", "/metrics"))[1].decode().splitlines()
        assert "comity_store_up 1" in lines
        assert f'comity_lane_deliveries{{lane="{LANE}",state="pending"}} 1' in lines
        assert f'comity_lane_paused{{lane="{LANE}"}} 0' in lines
        api.store.down = True
        status, text, _ = await api.call("GET", "/metrics")
        assert (status, b"comity_store_up 0" in text) == (200, True)
        assert (await api.call("GET", "/healthz"))[:2] == (200, {"status": "ok"})


async def test_metrics_tell_of_attempts_and_how_long_answers_took(tmp_path):
    async with staged(tmp_path) as api:
        for _ in range(3):
            await api.submit()
        await api.deliver(sent_ago=3 * NS, answered_ago=NS)
        await api.deliver("failed", reason="status", status=404, sent_ago=2 * NS, answered_ago=NS)
        await api.deliver("retry", wait=NS, refused=True, status=429)
        lines = (await api.call("GET", "/metrics"))[1].decode().splitlines()
    for outcome in ("ok", "refused", "failed"):
        assert f'comity_attempts_total{{outcome="{outcome}"}} 1' in lines
        assert f'comity_lane_attempts_total{{lane="{LANE}",outcome="{outcome}"}} 1' in lines
    assert {"comity_answer_seconds_sum 3.0", "comity_answer_seconds_count 2"} <= set(lines)
    assert f'comity_lane_failed{{lane="{LANE}"}} 1' in lines


async def test_metrics_are_in_the_format_of_prometheus_and_each_is_documented(tmp_path):
    """Text format 0.0.4: HELP and TYPE once for each family, then its samples."""
    async with staged(tmp_path) as api:
        await api.submit(lane='a"b"\\c')
        await api.deliver(sent_ago=3 * NS, answered_ago=NS)
        text = (await api.call("GET", "/metrics"))[1].decode()
    families = re.split(r"^# HELP ", text, flags=re.MULTILINE)
    assert families.pop(0) == ""
    names = []
    for each in families:
        head, told, *samples = each.splitlines()
        name = head.partition(" ")[0]
        kind = told.removeprefix(f"# TYPE {name} ")
        assert kind in {"counter", "gauge", "summary"}
        assert name.endswith("_total") == (kind == "counter")
        for sample in samples:
            assert re.fullmatch(SAMPLE.format(name, "_(?:sum|count)" if kind == "summary" else ""), sample), sample
        names.append(name)
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    assert names == re.findall(r"^\| `(comity_\w+)`", page, re.MULTILINE)


async def test_a_store_that_is_read_but_takes_nothing_is_not_ready(tmp_path):
    """A full disk can be read; ready again once a submission was stored."""
    async with staged(tmp_path, wrap=FullStore) as api:
        assert (await api.call("GET", "/readyz"))[0] == 200
        for path, kind in (("/requests", {}), ("/requests/batch", {"Content-Type": "application/x-ndjson"})):
            api.store.full = True
            assert (await api.call("POST", path, PLAIN, headers=kind))[0] == 503
            assert (await api.call("GET", "/requests"))[0] == 200
            status, body, headers = await api.call("GET", "/readyz")
            assert (status, "full" in body["detail"], headers["Retry-After"]) == (503, True, "5")
            api.store.full = False
            await api.submit()
            assert (await api.call("GET", "/readyz"))[0] == 200


async def test_a_full_disk_is_told_once_and_so_is_its_end_and_each_refusal_counts(tmp_path, caplog):
    """However many submissions are refused meanwhile."""
    async with staged(tmp_path, wrap=FullStore) as api:
        api.store.full = True
        for _ in range(5):
            assert (await api.call("POST", "/requests", PLAIN))[0] == 503
        lines = (await api.call("GET", "/metrics"))[1].decode().splitlines()
        assert 'comity_submissions_refused_total{reason="full"} 5' in lines
        assert "comity_store_takes_in 0" in lines
        api.store.full = False
        await api.submit()
        await api.submit()
        assert "comity_store_takes_in 1" in (await api.call("GET", "/metrics"))[1].decode().splitlines()
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "comity.web"]
    assert [level for level, _ in told if level != "INFO"] == ["ERROR", "WARNING"]
    # How many seconds that took is the machine's business.
    assert re.fullmatch(r"the store takes submissions in again; in \d+ s it refused 5", told[-1][1])


async def test_a_store_that_is_down_is_told_once_however_often_it_is_read(tmp_path, caplog):
    async with staged(tmp_path, wrap=DownStore) as api:
        api.store.down = True
        for _ in range(5):
            assert (await api.call("GET", "/requests"))[0] == 503
    assert [record.levelname for record in caplog.records if record.name == "comity.web"].count("ERROR") == 1


def test_a_store_that_comes_and_goes_is_told_of_once_a_minute(caplog):
    now = 0
    storing = Storing(clock=lambda: now)
    for _ in range(3):
        with pytest.raises(StoreError), storing.watched():
            raise StoreError("the disk is full", reason="full")
        with storing.watched():
            pass
        now += 25 * NS
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_what_was_refused_long_ago_says_nothing_of_now():
    now = 0
    storing = Storing(clock=lambda: now)
    with pytest.raises(StoreError), storing.watched():
        raise StoreError("the disk is full", reason="full")
    with pytest.raises(StoreError):
        storing.check()
    now = 5 * NS
    storing.check()


class FullStore:
    """A store that can be read and takes nothing in."""

    def __init__(self, store):
        self._store = store
        self.full = False

    def __getattr__(self, name):
        if self.full and name == "submit":
            raise StoreError("/secret/path: disk full", reason="full")
        return getattr(self._store, name)


@pytest.mark.skipif(sys.platform == "win32", reason="nobody can delete there what another has open")
async def test_a_store_whose_file_was_deleted_is_not_ready_and_acknowledges_nothing(tmp_path, caplog):
    async with staged(tmp_path) as api:
        await api.submit()
        (tmp_path / "s.db").unlink()
        for method, path, body in (("GET", "/readyz", None), ("POST", "/requests", PLAIN), ("GET", "/readyz", None)):
            status, told, _ = await api.call(method, path, body)
            assert (status, "gone" in told["detail"]) == (503, True)
    assert {record.getMessage().count("is gone") for record in caplog.records if record.levelname == "ERROR"} == {1}
