"""Journal, bitmap and lock: what the sidecar holds, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from comity.bulk import lock as locks
from comity.bulk.bitmap import Bitmap
from comity.bulk.journal import Journal
from comity.errors import OptionsError, StoreError


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def reopened(journal: Journal) -> Journal:
    journal.close()
    journal.output.touch()
    return Journal(journal.output)


def test_lines_of_an_earlier_run_are_known_and_a_changed_finished_one_is_refused(out):
    journal = Journal(out)
    for line in range(1, 11):
        journal.see(line, b"line %d" % line)
    journal.flush()
    again = reopened(journal)
    assert (again.recorded, again.nonce) == (10, journal.nonce)
    again.done.add(3)
    again.see(2, b"changed, but not finished")
    with pytest.raises(OptionsError, match="line 3, which is finished, has changed"):
        again.see(3, b"changed")
    again.close()


def test_a_changed_header_of_a_table_is_refused(out):
    journal = Journal(out)
    journal.see(1, b"id,url", header=True)
    journal.flush()
    again = reopened(journal)
    with pytest.raises(OptionsError, match="the header has changed"):
        again.see(1, b"url,id", header=True)
    again.close()


@given(lines=st.sets(st.integers(1, 20_000), min_size=1))
def test_digests_of_lines_with_gaps_are_found_again(tmp_path_factory, lines):
    out = tmp_path_factory.mktemp("journal") / "out"
    journal = Journal(out)
    for line in sorted(lines):
        journal.see(line, b"%d" % line)
    journal.flush()
    again = reopened(journal)
    for line in sorted(lines):
        again.done.add(line)
        again.see(line, b"%d" % line)
    with pytest.raises(OptionsError):
        reopened_done(again, max(lines)).see(max(lines), b"other")


def reopened_done(journal: Journal, line: int) -> Journal:
    again = reopened(journal)
    again.done.add(line)
    return again


async def test_what_was_about_to_be_sent_is_known_until_it_is_taken_back(out):
    journal = Journal(out)
    await asyncio.gather(*(journal.intend(line) for line in (1, 2, 3)))
    journal.unsend(2)
    again = reopened(journal)
    assert list(again.sending) == [1, 3]
    again.close()


async def test_requests_that_ask_together_share_one_record(out):
    journal = Journal(out)
    await asyncio.gather(*(journal.intend(line) for line in range(1, 101)))
    records = [json.loads(line) for line in journal.path.read_text().splitlines()]
    assert sum("sending" in record for record in records) <= 2
    journal.close()


def test_a_result_that_waits_for_its_place_survives(out):
    journal = Journal(out)
    journal.spill(7, b'{"line":7,"ok":true}')
    again = reopened(journal)
    assert again.unspill(7) == b'{"line":7,"ok":true}'
    again.close()


@pytest.mark.parametrize(
    "damaged",
    [
        b"X",
        b"\n",
        b'{"from":1,"digests":"AAAA"}\n',
        b'{"from":99999999999,"digests":"AAAAAAAAAAA="}\n',
        b'{"from":99999999,"digests":"AAAAAAAAAAA="}\n',
        b'{"sending":[-100000]}\n',
        b'{"settled":"?"}\n',
    ],
)
async def test_damage_before_the_end_is_no_torn_end(out, damaged):
    """ID-01: records behind it may tell of requests that must not be sent twice."""
    journal = Journal(out)
    header = journal.path.read_bytes()
    await journal.intend(1)
    journal.close()
    out.touch()
    text = header + damaged + journal.path.read_bytes()[len(header) :]
    journal.path.write_bytes(text)
    with pytest.raises(OptionsError, match=r"record 2 of out.jsonl.comity is damaged.*to begin again, remove both"):
        Journal(out)
    assert journal.path.read_bytes() == text


def test_an_empty_journal_beside_an_output_is_refused(out):
    out.touch()
    out.with_name(out.name + ".comity").touch()
    with pytest.raises(OptionsError, match="beside it is empty"):
        Journal(out)


@pytest.mark.parametrize("torn", [b'{"sending":[9', b'{"sending":[9]}', b"\0\0\0\0\n", b"{\0\0}\n"])
async def test_a_torn_end_is_dropped_and_what_stood_before_is_kept(out, torn):
    journal = Journal(out)
    await journal.intend(1)
    with journal.path.open("ab") as file:
        file.write(torn)
    again = reopened(journal)
    assert list(again.sending) == [1]
    await again.intend(2)
    last = reopened(again)
    assert list(last.sending) == [1, 2]
    last.close()


async def test_tidying_keeps_what_is_open_and_the_lock(out):
    journal = Journal(out)
    journal.see(1, b"one")
    for line in (1, 2):
        await journal.intend(line)
    for line in (3, 4):
        journal.spill(line, b'{"line":%d}' % line)
    for line in (1, 3):
        journal.done.add(line)
    journal.tidy()
    out.touch()
    with pytest.raises(OptionsError, match="no other run"):
        Journal(out)
    again = reopened(journal)
    assert (list(again.sending), list(again.spilled), again.recorded) == ([2], [4], 1)
    assert list(again.settled) == [1]
    again.close()


def test_what_is_settled_is_noted_where_files_cannot_be_replaced_too(out, monkeypatch):
    journal = Journal(out)
    for line in (1, 2):
        journal.unsafe.add(line)
    journal.done.add(2)
    monkeypatch.setattr(locks, "_fcntl", None)
    journal.tidy()
    again = reopened(journal)
    assert list(again.settled) == [2]
    again.close()


@pytest.mark.parametrize(
    "header", [b"{}\n", b"[]\n", b"\xff\n", b'{"comity":"journal","version":99,"nonce":"x"}\n', b"x"]
)
def test_a_file_with_another_first_line_is_no_journal(out, header):
    path = out.with_name(out.name + ".comity")
    path.write_bytes(header)
    with pytest.raises(OptionsError, match="is none"):
        Journal(out)
    assert path.read_bytes() == header


def test_a_journal_that_cannot_be_made_is_told(tmp_path):
    with pytest.raises(OptionsError, match="-o="):
        Journal(tmp_path / "nowhere" / "out")


def test_a_journal_that_cannot_be_written_is_an_error(out, monkeypatch):
    journal = Journal(out)
    reader = journal.path.open("rb")
    journal.file.fd, writable = reader.fileno(), journal.file.fd
    with pytest.raises(StoreError, match="Bad file descriptor"):
        journal.unsend(1)
    journal.file.fd = writable
    journal.close()
    reader.close()


async def test_an_intent_that_cannot_be_written_is_an_error_for_all_who_wait(out):
    journal = Journal(out)
    reader = journal.path.open("rb")
    journal.file.fd, writable = reader.fileno(), journal.file.fd
    found = await asyncio.gather(*(journal.intend(line) for line in (1, 2)), return_exceptions=True)
    assert [type(each) for each in found] == [StoreError, StoreError]
    journal.file.fd = writable
    journal.close()
    reader.close()


def test_without_system_locks_a_file_stands_for_the_lock(out, monkeypatch):
    monkeypatch.setattr(locks, "_fcntl", None)
    journal = Journal(out)
    with pytest.raises(OptionsError, match="no other run"):
        Journal(out)
    journal.close()
    Journal(out).close()


def test_a_lock_on_a_file_that_was_replaced_is_none(tmp_path):
    path = tmp_path / "journal"
    with path.open("wb") as file:
        other = Path(tmp_path, "other")
        other.touch()
        other.replace(path)
        assert not locks.lock(file.fileno(), path)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 100_000))))
def test_a_bitmap_is_a_set(steps):
    bitmap, model = Bitmap(), set()
    for add, line in steps:
        (bitmap.add if add else bitmap.discard)(line)
        (model.add if add else model.discard)(line)
    assert (list(bitmap), len(bitmap)) == (sorted(model), len(model))
    assert all(line in bitmap for line in model)
    assert list(Bitmap.unpacked(bitmap.packed())) == sorted(model)
    assert bitmap.highest == max((line for add, line in steps if add), default=0)


def test_a_million_lines_take_an_eighth_of_a_megabyte():
    bitmap = Bitmap()
    bitmap.add(1_000_000)
    assert len(bitmap._bits) < 130_000
