"""Part: what has come of a file, one writer at a time, named when it is whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from comity.client.part import Part
from comity.errors import OptionsError

fcntl = pytest.importorskip("fcntl")


def part(path: Path) -> Part:
    return Part(path, "http://h/f", resume=True, digest=None)


def test_the_lock_is_held_until_the_file_has_its_name(tmp_path, monkeypatch):
    path, replace, refused = tmp_path / "f", Path.replace, []

    def while_it_is_named(source: Path, target: Path) -> Path:
        with part(path) as second:
            with pytest.raises(OptionsError, match="another download"):
                second.open()
            refused.append(True)
        return replace(source, target)

    with part(path) as first:
        first.open()
        first.restart('"v"')
        first.write(b"whole")
        monkeypatch.setattr(Path, "replace", while_it_is_named)
        first.finish()
    assert (refused, path.read_bytes()) == ([True], b"whole")


def test_who_gets_the_lock_of_a_file_that_was_given_out_meanwhile_begins_another(tmp_path, monkeypatch):
    path, flock = tmp_path / "f", fcntl.flock
    with part(path) as first, part(path) as second:
        first.open()
        first.restart('"v"')
        first.write(b"whole")

        def just_before(file: int, operation: int) -> None:
            monkeypatch.setattr(fcntl, "flock", flock)
            first.finish()
            flock(file, operation)

        monkeypatch.setattr(fcntl, "flock", just_before)
        second.open()
        second.restart('"w"')
        second.write(b"half")
        assert path.read_bytes() == b"whole"
    assert (tmp_path / "f.part").read_bytes() == b"half"


def test_a_link_in_the_place_of_a_part_is_not_written_through(tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "f.part").symlink_to(tmp_path / "mine")
    with part(tmp_path / "f") as linked, pytest.raises(OSError, match="symbolic links"):
        linked.open()
    assert (tmp_path / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"url": 5}', "[" * 100_000, json.dumps({"url": "x", "validator": "y"})]
)
def test_what_says_nothing_about_the_part_lets_it_begin_anew(tmp_path, text):
    (tmp_path / "f.part").write_bytes(b"junk")
    (tmp_path / "f.part.json").write_text(text)
    with part(tmp_path / "f") as begun:
        begun.open()
        assert (begun.size, begun.validator) == (0, "")
    assert list(tmp_path.iterdir()) == []
