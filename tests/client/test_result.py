"""result: what a settled call becomes."""

from __future__ import annotations

import pytest

from comity import AsyncClient, RateLimited
from comity.testing import Answer, ScriptedTransport, VirtualClock


@pytest.mark.parametrize(("wait", "said"), [("3600", "3600 s"), ("86400", "86400 s"), ("90.5", "90.5 s")])
def test_a_wait_that_is_too_long_is_told_in_plain_seconds(wait, said):
    async def ask():
        async with AsyncClient(transport=transport, clock=clock) as api:
            await api.get("http://api.example/x")

    clock, transport = VirtualClock(), ScriptedTransport(Answer(429, headers={"Retry-After": wait}))
    with pytest.raises(RateLimited, match=rf"UTC \({said} from now\)"):
        clock.run(ask())
