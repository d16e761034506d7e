"""Limits by host: what is set for a lane wins over what the configuration says of its host, and that over the rest."""

from __future__ import annotations

import msgspec
import pytest

from comity.errors import OptionsError
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.worker import WorkerOptions
from tests.service.running import bench


@pytest.fixture
async def work(tmp_path):
    async with bench(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("hosts", "most"),
    [
        ({}, 1),
        ({"127.0.0.1": {"rate": "2/1h"}}, 2),
        ({"127.0.0.1": {"rate": "2/1h"}, "127.0.0.1:PORT": {"rate": "3/1h"}}, 3),
        ({"example.com": {"rate": "2/1h"}}, 1),
    ],
)
async def test_the_longest_match_wins_over_the_global_limits(work, hosts, most):
    port = work.upstream.url.rpartition(":")[2]
    hosts = {key.replace("PORT", port): options for key, options in hosts.items()}
    made = await work.store.submit([work.delivery(f"/ok/{n}") for n in range(5)])
    async with work.service(policy=Policy(rate="1/1h"), hosts=hosts, patience=NS // 10):
        await work.upstream.until(lambda up: len(up.log) == most)
        for each in made[most:]:
            await work.put_off(each.id)
    assert len(work.upstream.log) == most


async def test_limits_that_are_set_for_a_lane_win_over_those_of_its_host(work):
    """The rest of them is still the host's, and what that leaves out everybody's."""
    await work.store.submit([work.delivery(f"/ok/{n}") for n in range(5)])
    async with work.service(policy=Policy(rate="1/1h"), hosts={"127.0.0.1": {"rate": "2/1h"}}, patience=NS // 10):
        await work.upstream.until(lambda up: len(up.log) == 2)
        await work.store.change_lane(work.upstream.url, limits=msgspec.json.encode({"rate": "4/1h"}))
        await work.upstream.until(lambda up: len(up.log) == 4)
    assert len(work.upstream.log) == 4


def test_what_a_host_leaves_out_is_as_for_all_others():
    rules = WorkerOptions(
        policy=Policy(rate="9/s", concurrency=7), hosts={"a.example": {"min_gap": 0.5, "adaptive": "auto"}}
    ).rules()
    found = rules.match("api.a.example:8080").policy
    assert (found.rate[0].max, found.concurrency, found.min_gap, found.adaptive.algorithm) == (9, 7, 0.5, "auto")
    assert rules.match("b.example").policy.adaptive is None


async def test_an_adaptive_host_is_worked_through(work):
    made = await work.store.submit([work.delivery(f"/ok/{n}") for n in range(20)])
    async with work.service(hosts={"127.0.0.1": {"adaptive": "auto", "concurrency": 4}}):
        assert [(await work.end(each.id)).state for each in made] == ["completed"] * 20


@pytest.mark.parametrize("hosts", [{"a..b": {}}, {"POST a.example": {}}, {"a.example": {"rates": 1}}, {"a.example": 1}])
def test_what_cannot_be_a_host_or_its_limits_is_refused(hosts):
    with pytest.raises(OptionsError):
        WorkerOptions(hosts=hosts)
