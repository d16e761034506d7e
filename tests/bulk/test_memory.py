"""A run goes on with the limits of the last one."""

from __future__ import annotations

from comity import Policy
from comity.client.aiohttp_transport import AiohttpTransport
from tests.bulk.harness import by_line, run, write

LIMITS = Policy(rate="3/h", deadline=0.5, retry=0)


async def test_a_second_run_does_not_send_what_the_first_one_used_up(tmp_path, upstream):
    rows = write(tmp_path / "in", *[f"{upstream.url}/ok/{number}" for number in range(3)])
    memory = str(tmp_path / "memory.json")
    assert (await run(rows, tmp_path / "first", LIMITS, memory=memory)).exit_code == 0
    assert (await run(rows, tmp_path / "anew", LIMITS)).exit_code == 0
    again = await run(rows, tmp_path / "again", LIMITS, memory=memory)
    assert again.exit_code == 1
    assert {row["error"]["type"] for row in by_line(tmp_path / "again").values()} == {"TimedOut"}


async def test_a_memory_that_cannot_be_written_at_the_end_costs_no_result(tmp_path, upstream):
    memory, port = tmp_path / "memory.json", upstream.port
    rows = write(tmp_path / "in", f"http://127.0.0.1:{port}/ok/1")

    class Spoils(AiohttpTransport):
        async def aclose(self) -> None:
            memory.write_text("a letter")
            await super().aclose()

    report = await run(rows, tmp_path / "out", LIMITS, memory=str(memory), transport=Spoils())
    assert report.exit_code == 0
    assert [line for line in report.lines() if "--memory" in line and "no longer" in line]
    assert memory.read_text() == "a letter"
