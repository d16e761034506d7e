"""Reader and table: which rows an input holds, whatever its form, in constant memory."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from comity.bulk.reader import Reader
from comity.bulk.rows import Invalid, Row, RowParser
from comity.bulk.template import UrlTemplate
from comity.errors import OptionsError


async def read(*inputs, template=None, **options):
    reader = Reader([str(each) for each in inputs], RowParser(template=template), **options)
    rows = []
    try:
        while not reader.ended:
            rows += await reader.take(3)
    finally:
        reader.close()
    return rows, reader


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


async def test_blank_lines_are_skipped_and_counted(tmp_path):
    rows, reader = await read(write(tmp_path / "in", "\n\nhttp://a/1\r\n  \n\nhttp://a/2"))
    assert [(row.line, row.url) for row in rows] == [(3, "http://a/1"), (6, "http://a/2")]
    assert (reader.lines, reader.skipped) == (6, 4)


async def test_an_empty_input_has_no_rows(tmp_path):
    assert (await read(write(tmp_path / "in", "")))[0] == []
    assert (await read(write(tmp_path / "in.csv", "")))[0] == []


async def test_a_mark_before_the_first_line_is_no_part_of_it(tmp_path):
    rows, _ = await read(write(tmp_path / "in", '\ufeff{"url": "http://a/"}\n'))
    assert rows[0].url == "http://a/"


async def test_a_line_over_the_limit_is_told_and_the_next_is_read(tmp_path):
    rows, _ = await read(write(tmp_path / "in", "http://a/" + "x" * 5000 + "\nhttp://a/2\n"), max_line=1000)
    assert isinstance(rows[0], Invalid)
    assert rows[0].message == "line 1 is longer than 1000 bytes"
    assert isinstance(rows[1], Row)


async def test_records_that_are_not_admitted_are_not_parsed(tmp_path):
    seen = []

    def admit(record):
        seen.append((record.line, record.data))
        return record.line == 2

    rows, _ = await read(write(tmp_path / "in", "oops\nhttp://a/2\n"), admit=admit)
    assert seen == [(1, b"oops"), (2, b"http://a/2")]
    assert [row.line for row in rows] == [2]


async def test_form_is_seen_from_the_first_line_when_the_name_does_not_tell(tmp_path):
    template = UrlTemplate("http://a/{id}")
    for text in ("id,x\n7,8\n", "id\tx\n7\t8\n", '{"id": 7}\n'):
        rows, _ = await read(write(tmp_path / "in", text), template=template)
        assert [row.url for row in rows] == ["http://a/7"]


async def test_a_table_needs_the_columns_of_its_template(tmp_path):
    with pytest.raises(OptionsError, match=r"--url='http://a/{id}'.* has the columns a, b, not 'id'"):
        await read(write(tmp_path / "in.csv", "a,b\n1,2\n"), template=UrlTemplate("http://a/{id}"))


async def test_a_table_may_bring_methods_and_bodies(tmp_path):
    rows, _ = await read(write(tmp_path / "in.csv", 'url,method,body,other\nhttp://a/,post,"x,y",z\n'))
    assert (rows[0].method, rows[0].content) == ("POST", b"x,y")


async def test_a_record_over_several_lines_has_the_number_of_its_first(tmp_path):
    rows, reader = await read(write(tmp_path / "in.csv", 'url,body\nhttp://a/1,"x\ny\n"\nhttp://a/2,\n'))
    assert [(row.line, row.content) for row in rows] == [(2, b"x\ny\n"), (5, None)]
    assert reader.lines - reader.skipped == 2


async def test_a_quoted_value_without_end_is_told(tmp_path):
    rows, _ = await read(write(tmp_path / "in.csv", 'url\n"http://a/\nx\n'))
    assert [(row.line, row.message) for row in rows] == [(2, "line 2: a quoted value has no end")]


async def test_a_long_quoted_value_is_one_value(tmp_path):
    text = 'url,body\nhttp://a/1,"' + '12,""34""\n' * 3000 + '"\nhttp://a/2,b\n'
    rows, _ = await read(write(tmp_path / "in.csv", text))
    assert [(row.url, row.content) for row in rows] == [
        ("http://a/1", b'12,"34"\n' * 3000),
        ("http://a/2", b"b"),
    ]


async def test_no_line_within_a_value_that_has_no_end_becomes_a_row(tmp_path, monkeypatch):
    path = write(tmp_path / "in.csv", 'url\n"http://a/\n' + "http://a/x\n" * 300)
    rows, _ = await read(path)
    assert [(type(row), row.line) for row in rows] == [(Invalid, 2)]
    monkeypatch.setattr("comity.bulk.table.MAX_LINE", 1000)
    with pytest.raises(OptionsError, match="a quoted value that begins in line 2 has no end within 1,000 bytes"):
        await read(path)


async def test_a_cell_that_is_not_utf8_is_told(tmp_path):
    rows, _ = await read(write(tmp_path / "in.csv", b"url\nhttp://a/\xff\nhttp://a/\n"))
    assert [row.line for row in rows if isinstance(row, Invalid)] == [2]


async def test_a_pipe_that_nobody_writes_to_holds_nothing_up(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reading = asyncio.create_task(read(tmp_path / "pipe"))
    done, _ = await asyncio.wait([reading], timeout=0.05)
    reading.cancel()
    assert not done


async def test_a_pipe_is_read_as_it_comes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    go_on = threading.Event()

    def produce():
        with path.open("wb", buffering=0) as pipe:
            pipe.write(b"http://a/1\nhttp://a/")
            go_on.wait(10)
            pipe.write(b"2\n")

    producer = threading.Thread(target=produce)
    producer.start()
    reader = Reader([str(path)], RowParser())
    first = await reader.take()
    go_on.set()
    rest = []
    while not reader.ended:
        rest += await reader.take()
    producer.join()
    reader.close()
    assert not reader.rereadable
    assert [row.url for row in first + rest] == ["http://a/1", "http://a/2"]


async def test_a_device_that_no_selector_takes_is_read_too():
    assert (await read("/dev/null"))[0] == []


async def test_utf16_is_told(tmp_path):
    with pytest.raises(OptionsError, match="UTF-8 text; it is UTF-16"):
        await read(write(tmp_path / "in", "http://a/".encode("utf-16")))
