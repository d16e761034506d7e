"""Health: numbers are told, also while the store is down."""

from __future__ import annotations

from tests.web.stage import LANE, DownStore, staged


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
