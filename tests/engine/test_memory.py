"""Memory: the file between two processes."""

from __future__ import annotations

import json

import pytest

from comity.engine.hosts import Hosts
from comity.engine.memory import KEPT_FOR, Memory
from comity.errors import OptionsError, StoreError
from comity.policy.memory import HostMemory
from comity.policy.options import Policy
from comity.testing import VirtualClock

NOW = 1_700_000_000 * 10**9


def test_what_one_wrote_the_next_reads(tmp_path):
    first = Memory(tmp_path / "m.json")
    first.keep({"a": HostMemory(at=NOW, gap=5), "b": None})
    first.save(NOW)
    assert Memory(str(tmp_path / "m.json")).hosts == {"a": HostMemory(at=NOW, gap=5)}
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


def test_nothing_is_written_when_nothing_was_learned(tmp_path):
    memory = Memory(tmp_path / "m.json")
    memory.save(NOW)
    assert not (tmp_path / "m.json").exists()


def test_two_that_share_a_file_keep_what_the_other_wrote(tmp_path):
    first, second = (Memory(tmp_path / "m.json") for _ in range(2))
    first.keep({"a": HostMemory(at=NOW, gap=1)})
    second.keep({"b": HostMemory(at=NOW, gap=2)})
    first.save(NOW)
    second.save(NOW)
    first.keep({"a": None})
    first.save(NOW)
    assert Memory(tmp_path / "m.json").hosts == {"b": HostMemory(at=NOW, gap=2)}


def test_what_is_old_is_forgotten(tmp_path):
    memory = Memory(tmp_path / "m.json")
    memory.keep({"a": HostMemory(at=NOW - KEPT_FOR, gap=1), "b": HostMemory(at=NOW, gap=1)})
    memory.save(NOW)
    assert set(Memory(tmp_path / "m.json").hosts) == {"b"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"comity_memory": 2, "hosts": {}}',
        b'{"comity_memory": 1, "hosts": {"a": {"gap": 1}}}',
    ],
    ids=["empty", "other", "bytes", "deep", "version", "no time"],
)
def test_a_file_that_is_no_memory_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(OptionsError, match="memory"):
        Memory(path)
    assert path.read_bytes() == content


def test_a_path_that_cannot_be_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none" / "m.json", 7):
        with pytest.raises(OptionsError, match="memory"):
            Memory(path)


def test_a_file_that_became_something_else_or_cannot_be_written_is_told(tmp_path):
    memory = Memory(tmp_path / "m.json")
    memory.keep({"a": HostMemory(at=NOW, gap=1)})
    (tmp_path / "m.json").write_text("a letter")
    with pytest.raises(StoreError, match="no longer"):
        memory.save(NOW)
    assert (tmp_path / "m.json").read_text() == "a letter"
    (tmp_path / "m.json").unlink()
    tmp_path.rmdir()
    with pytest.raises(StoreError, match="cannot be written"):
        memory.save(NOW)


def test_hosts_begin_with_what_is_kept_and_hand_over_what_they_learned(tmp_path):
    clock, path = VirtualClock(), tmp_path / "m.json"
    hosts = Hosts(Policy(learn="gap"), clock=clock, memory=Memory(path))
    hosts.gate("a.test").core.gap.learned = 10**9
    hosts.gate("b.test")
    hosts.remember()
    assert set(json.loads(path.read_text())["hosts"]) == {"a.test"}
    later = Hosts(Policy(learn="gap"), clock=clock, memory=Memory(path))
    assert [later.gate(name).core.gap.learned for name in ("a.test", "b.test")] == [10**9, 0]


def test_without_a_memory_nothing_is_kept():
    Hosts(Policy()).remember()
