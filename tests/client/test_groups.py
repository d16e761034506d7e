"""Groups: requests to one host under limits of their own."""

from __future__ import annotations

import asyncio

from comity import AsyncClient, Policy
from comity.testing import Answer, ScriptedTransport, VirtualClock


def test_a_refusal_of_one_group_holds_up_no_other():
    clock = VirtualClock()
    refused = {"/search/a"}

    def server(request):
        if request.path in refused:
            refused.discard(request.path)
            return Answer(429, headers={"Retry-After": "20"})
        return Answer(200)

    async def main() -> list[float]:
        hosts = {"x.test/search/*": Policy(concurrency=3)}
        async with AsyncClient("http://x.test", hosts=hosts, clock=clock, transport=ScriptedTransport(server)) as api:
            began = clock.now()

            async def after(path: str) -> float:
                await api.get(path)
                return (clock.now() - began) / 1e9

            first = asyncio.create_task(after("/search/a"))
            await asyncio.sleep(1)
            found = await asyncio.gather(after("/search/b?q=1"), after("/users"), first)
            assert set(api.stats().hosts) == {"x.test", "x.test/search/*"}
            return found

    assert [round(seconds) for seconds in clock.run(main())] == [20, 1, 20]


def test_each_value_of_a_field_has_a_rate_of_its_own():
    clock = VirtualClock()

    async def main() -> list[float]:
        policy = Policy(rate="1/10s", group="json:model")
        async with AsyncClient(
            "http://llm.test", policy=policy, clock=clock, transport=ScriptedTransport(lambda _: 200)
        ) as api:
            began = clock.now()

            async def after(body: object) -> float:
                await api.post("/chat", json=body)
                return (clock.now() - began) / 1e9

            bodies = [{"model": "a"}, {"model": "b"}, {"model": "a"}, {"n": 1}, ["no", "object"], None]
            found = await asyncio.gather(*(after(body) for body in bodies))
            assert set(api.stats().hosts) == {"llm.test [model=a]", "llm.test [model=b]", "llm.test"}
            return found

    assert [round(seconds) for seconds in clock.run(main())] == [0, 0, 10, 0, 10, 20]


def test_a_redirect_into_another_group_waits_for_that_groups_turn():
    clock = VirtualClock()

    def server(request):
        return Answer(302, headers={"Location": "/search/x"}) if request.path == "/go" else Answer(200)

    async def main() -> float:
        hosts = {"x.test/search/*": Policy(rate="1/10s")}
        transport = ScriptedTransport(server)
        async with AsyncClient(
            "http://x.test", hosts=hosts, clock=clock, transport=transport, follow_redirects=True
        ) as api:
            began = clock.now()
            await asyncio.gather(api.get("/go"), api.get("/go"))
            return (clock.now() - began) / 1e9

    assert round(clock.run(main())) == 10
