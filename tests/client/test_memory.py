"""A client goes on where the last one was."""

from __future__ import annotations

import pytest

from comity import AsyncClient, Client, OptionsError, StoreError
from comity.testing import ScriptedTransport, VirtualClock


def seconds_for(clock: VirtualClock, path: object, count: int) -> float:
    """Return how long a client of its own needs for so many requests at 5 in 10 s."""

    async def main() -> float:
        transport = ScriptedTransport(lambda _: 200)
        async with AsyncClient("http://x.test", rate="5/10s", clock=clock, transport=transport, memory=path) as api:  # type: ignore[arg-type]
            began = clock.now()
            for _ in range(count):
                await api.get("/")
            return (clock.now() - began) / 1e9

    return clock.run(main())


def test_a_limit_is_not_exceeded_by_starting_anew(tmp_path):
    clock, path = VirtualClock(), tmp_path / "memory.json"
    assert seconds_for(clock, path, 4) == 0
    clock.advance(3)
    assert seconds_for(clock, path, 2) == 7
    assert seconds_for(clock, None, 2) == 0


def test_what_was_learned_can_be_written_before_the_end(tmp_path):
    path = tmp_path / "memory.json"
    with Client("http://x.test", rate="5/h", transport=ScriptedTransport(200), memory=path) as api:
        api.get("/")
        api.remember()
        assert b"x.test" in path.read_bytes()


def test_a_client_is_closed_even_if_its_memory_cannot_be_written(tmp_path):
    path = tmp_path / "memory.json"
    api = Client("http://x.test", rate="5/h", transport=ScriptedTransport(200), memory=path)
    api.get("/")
    path.write_text("something else")
    with pytest.raises(StoreError, match="memory"):
        api.close()
    with pytest.raises(OptionsError, match="memory"):
        Client("http://x.test", memory=path)
