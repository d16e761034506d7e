"""Going on where an earlier run stopped: the output is the truth, the journal tells what it cannot."""

from __future__ import annotations

import json

import pytest

from comity.bulk.journal import Journal
from comity.bulk.template import UrlTemplate
from comity.errors import OptionsError
from comity.policy.options import Policy
from comity.policy.retry import Retry
from comity.testing import ScriptedTransport
from tests.bulk.harness import by_line, results, run, sends, write

ONCE = Policy(retry=Retry(attempts=1))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def sidecar(out):
    return out.with_name("out.jsonl.comity")


def urls(upstream, *numbers, path="ok"):
    return [f"{upstream.url}/{path}/{number}" for number in numbers]


def cut(out, lines, torn=b""):
    """Leave the output as a kill would: the first lines, and a piece of the next."""
    out.write_bytes(b"".join(out.read_bytes().splitlines(keepends=True)[:lines]) + torn)


async def test_a_second_run_sends_nothing_again(tmp_path, upstream, out):
    source = write(tmp_path / "in", *urls(upstream, *range(20)))
    await run(source, out)
    report = await run(source, out)
    assert (report.exit_code, report.tally.sent, len(upstream.log)) == (0, 0, 20)


async def test_what_has_no_whole_result_is_sent_again(tmp_path, upstream, out):
    source = write(tmp_path / "in", *urls(upstream, *range(20)))
    await run(source, out)
    cut(out, 12, torn=b'{"id":1,"line":')
    report = await run(source, out)
    assert report.tally.sent == 8
    assert sorted(by_line(out)) == list(range(1, 21))


async def test_lines_added_to_the_input_are_sent(tmp_path, upstream, out):
    source = write(tmp_path / "in", *urls(upstream, *range(5)))
    await run(source, out)
    write(source, *urls(upstream, *range(8)))
    await run(source, out)
    assert sends(upstream) == {f"/ok/{number}": 1 for number in range(8)}
    assert len(by_line(out)) == 8


@pytest.mark.parametrize("place", [0, 2, 4])
async def test_a_changed_finished_line_is_refused_and_nothing_is_sent(tmp_path, upstream, out, place):
    """BK-03"""
    rows = urls(upstream, *range(5))
    await run(write(tmp_path / "in", *rows), out)
    before = out.read_bytes()
    rows[place] += "?changed"
    with pytest.raises(OptionsError, match=rf"another input: line {place + 1}, which is finished, has changed"):
        await run(write(tmp_path / "in", *rows, *urls(upstream, 9)), out)
    assert (len(upstream.log), out.read_bytes()) == (5, before)


async def test_a_row_put_in_at_the_top_is_refused(tmp_path, upstream, out):
    """BK-03"""
    rows = urls(upstream, *range(50))
    await run(write(tmp_path / "in", *rows), out)
    cut(out, 20)
    with pytest.raises(OptionsError, match="another input"):
        await run(write(tmp_path / "in", f"{upstream.url}/ok/new", *rows), out)
    assert len(upstream.log) == 50


async def test_an_input_that_lost_finished_lines_is_refused(tmp_path, upstream, out):
    rows = urls(upstream, *range(5))
    await run(write(tmp_path / "in", *rows), out)
    with pytest.raises(OptionsError, match="it has 3 lines, and line 5 is finished"):
        await run(write(tmp_path / "in", *rows[:3]), out)


async def test_a_line_that_is_not_finished_may_change(tmp_path, upstream, out):
    rows = urls(upstream, *range(5))
    await run(write(tmp_path / "in", *rows), out, Policy(concurrency=1))
    cut(out, 4)
    rows[4] += "?changed"
    await run(write(tmp_path / "in", *rows), out)
    assert sends(upstream)["/ok/4?changed"] == 1
    rows[4] += "again"
    with pytest.raises(OptionsError, match="line 5"):
        await run(write(tmp_path / "in", *rows), out)


@pytest.mark.parametrize("text", ["precious\n", '{"a": 1}\n', "x"])
async def test_a_file_that_is_not_ours_is_left_as_it_is(tmp_path, upstream, out, text):
    out.write_text(text)
    with pytest.raises(OptionsError, match=r"it exists, and out\.jsonl\.comity does not"):
        await run(write(tmp_path / "in", *urls(upstream, 1)), out)
    assert (out.read_text(), upstream.log, sidecar(out).exists()) == (text, [], False)


async def test_a_journal_that_is_not_ours_is_left_as_it_is(tmp_path, upstream, out):
    sidecar(out).write_text("diary\n")
    with pytest.raises(OptionsError, match="is none"):
        await run(write(tmp_path / "in", *urls(upstream, 1)), out)
    assert (sidecar(out).read_text(), upstream.log) == ("diary\n", [])


async def test_an_output_with_foreign_lines_is_refused(tmp_path, upstream, out):
    source = write(tmp_path / "in", *urls(upstream, 1, 2))
    await run(source, out)
    with out.open("a") as file:
        file.write("a note of mine\n")
    before = out.read_bytes()
    with pytest.raises(OptionsError, match="line 3 of it is no result"):
        await run(source, out)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["a note without end", '{"line":0,"ok":true}\n', '{"line":99999999999999,"ok":true}\n', '{"a":']
)
async def test_foreign_text_at_the_end_of_an_output_is_left_as_it_is(tmp_path, upstream, out, text):
    source = write(tmp_path / "in", *urls(upstream, 1, 2))
    await run(source, out)
    with out.open("a") as file:
        file.write(text)
    before = out.read_bytes()
    with pytest.raises(OptionsError, match="line 3 of it is no result"):
        await run(source, out)
    assert out.read_bytes() == before


@pytest.mark.parametrize("torn", [b"{", b'{"id":', b'{"id":1,"line":', b"\0\0\0"])
async def test_what_a_kill_tore_off_is_dropped(tmp_path, upstream, out, torn):
    source = write(tmp_path / "in", *urls(upstream, 1, 2))
    await run(source, out)
    cut(out, 1, torn)
    assert (await run(source, out)).exit_code == 0
    assert sorted(by_line(out)) == [1, 2]


async def test_no_other_file_is_written_over(tmp_path, upstream, out):
    rows = [f"{upstream.url}/status/404", {"url": f"{upstream.url}/ok/1", "method": "POST"}]
    source = write(tmp_path / "out.jsonl.new", *rows)
    (tmp_path / "out.jsonl.comity.new").write_text("precious")
    await run(source, out)
    await run(source, out, retry_failed=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"out.jsonl", "out.jsonl.comity", "out.jsonl.new", "out.jsonl.comity.new"}
    assert (tmp_path / "out.jsonl.comity.new").read_text() == "precious"


async def test_a_template_is_compared_without_its_secrets_in_the_journal(tmp_path, upstream, out):
    """SC-01"""
    (tmp_path / "in.csv").write_text("n\n1\n")
    template = UrlTemplate(upstream.url + "/ok/{n}?api_key=SECRET1")
    await run(tmp_path / "in.csv", out, template=template)
    assert "SECRET" not in sidecar(out).read_text()
    assert (await run(tmp_path / "in.csv", out, template=template)).exit_code == 0
    with pytest.raises(OptionsError, match="--url=") as caught:
        await run(tmp_path / "in.csv", out, template=UrlTemplate(upstream.url + "/ok/{n}?api_key=SECRET2"))
    assert "SECRET" not in str(caught.value)


async def test_an_output_that_was_removed_is_not_begun_again_unasked(tmp_path, upstream, out):
    source = write(tmp_path / "in", *urls(upstream, 1))
    await run(source, out)
    out.unlink()
    with pytest.raises(OptionsError, match="it is gone"):
        await run(source, out)
    assert len(upstream.log) == 1


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        ({}, {"method": "POST"}, "--method='POST' cannot be used: the run was begun without it"),
        ({"method": "PUT"}, {}, "--method is missing: the run that is to go on was begun with 'PUT'"),
        ({"key_name": "Idempotency-Key"}, {}, "--idempotency-key is missing: .* begun with 'Idempotency-Key'"),
        ({"key_name": "A"}, {"key_name": "B"}, "--idempotency-key='B' cannot be used: .* carried out twice"),
        ({}, {"key_name": "A"}, "--idempotency-key='A' cannot be used: the run was begun without it"),
    ],
)
async def test_options_that_make_other_requests_of_the_lines_are_refused(tmp_path, upstream, out, first, then, says):
    source = write(tmp_path / "in", *urls(upstream, 1))
    await run(source, out, **first)
    write(source, *urls(upstream, 1, 2))
    with pytest.raises(OptionsError, match=f"{says}.*to begin again, remove the output"):
        await run(source, out, **then)
    assert len(upstream.log) == 1


async def test_the_name_of_the_key_is_the_same_in_any_case(tmp_path, upstream, out):
    """RFC 9110 section 5.1"""
    source = write(tmp_path / "in", *urls(upstream, 1))
    await run(source, out, key_name="Idempotency-Key")
    assert (await run(source, out, key_name="idempotency-KEY")).exit_code == 0


@pytest.mark.parametrize("key", [None, "Idempotency-Key"])
@pytest.mark.parametrize("left", [0, 3])
async def test_a_finished_post_whose_result_was_taken_out_is_not_sent_again_unasked(tmp_path, upstream, out, key, left):
    """ID-01"""
    source = write(tmp_path / "in", *[{"url": url, "method": "POST"} for url in urls(upstream, *range(5))])
    await run(source, out, key_name=key)
    cut(out, left)
    for again in ({}, {"retry_failed": True}):
        with pytest.raises(OptionsError, match=r"result of line \d and of \d more is not in it any more"):
            await run(source, out, key_name=key, **again)
    assert len(upstream.log) == 5
    report = await run(source, out, key_name=key, resend_unknown=True)
    assert (report.exit_code, report.tally.sent, len(by_line(out))) == (0, 5 - left, 5)
    assert (await run(source, out, key_name=key)).tally.sent == 0


async def test_failed_posts_taken_out_to_be_sent_again_are_not_missed(tmp_path, upstream, out):
    rows = [{"url": f"{upstream.url}/flaky/{n}?fail=1&code=500", "method": "POST"} for n in range(3)]
    source = write(tmp_path / "in", *rows)
    await run(source, out)
    unreachable = ScriptedTransport(lambda _request: "connect")
    await run(source, out, retry_failed=True, policy=Policy(retry=0), transport=unreachable)
    assert (await run(source, out, retry_failed=True)).exit_code == 0


async def test_the_second_of_two_runs_on_one_output_is_refused(tmp_path, upstream, out):
    source = write(tmp_path / "in", *urls(upstream, 1))
    journal = Journal(out)
    try:
        with pytest.raises(OptionsError, match="no other run is writing"):
            await run(source, out)
    finally:
        journal.close()
    assert (upstream.log, out.exists()) == ([], False)


async def test_failed_rows_are_sent_again_when_asked(tmp_path, upstream, out):
    rows = [*urls(upstream, *range(5)), f"{upstream.url}/flaky/a?fail=1", f"{upstream.url}/status/404"]
    source = write(tmp_path / "in", *rows)
    assert (await run(source, out, ONCE)).exit_code == 1
    assert (await run(source, out, ONCE)).tally.sent == 0
    report = await run(source, out, ONCE, retry_failed=True)
    assert (report.tally.sent, report.exit_code) == (2, 1)
    found = by_line(out)
    assert sorted(found) == list(range(1, 8))
    assert (found[6]["ok"], found[7]["status"]) == (True, 404)


async def test_a_failed_row_may_be_corrected_before_it_is_sent_again(tmp_path, upstream, out):
    await run(write(tmp_path / "in", *urls(upstream, 1), "oops"), out)
    report = await run(write(tmp_path / "in", *urls(upstream, 1, 2)), out, retry_failed=True)
    assert (report.exit_code, report.tally.sent) == (0, 1)


async def test_an_ordered_output_is_in_order_after_failed_rows_were_sent_again(tmp_path, upstream, out):
    rows = [f"{upstream.url}/flaky/{n}?fail={n % 2}" for n in range(10)]
    source = write(tmp_path / "in", *rows)
    await run(source, out, ONCE, ordered=True)
    await run(source, out, ONCE, ordered=True, retry_failed=True)
    assert [(row["line"], row["ok"]) for row in results(out)] == [(line, True) for line in range(1, 11)]


async def test_a_request_that_must_not_be_repeated_is_reported_as_unknown(tmp_path, upstream, out):
    """ID-01: it was about to be sent when the run was killed."""
    source = write(tmp_path / "in", {"url": f"{upstream.url}/ok/1", "method": "POST"}, *urls(upstream, 2))
    out.touch()
    journal = Journal(out)
    await journal.intend(1)
    journal.close()
    report = await run(source, out)
    found = by_line(out)
    assert (report.exit_code, found[1]["error"]["type"], found[2]["ok"]) == (1, "unknown", True)
    assert [arrival.target for arrival in upstream.log] == ["/ok/2"]
    for again in (False, True):
        await run(source, out, retry_failed=True, resend_unknown=again)
        assert by_line(out)[1]["ok"] is again


async def test_a_connection_lost_under_a_post_is_not_sent_again_by_retry_failed(tmp_path, upstream, out):
    """ID-01"""
    source = write(tmp_path / "in", {"url": f"{upstream.url}/reset", "method": "POST"})
    await run(source, out)
    report = await run(source, out, retry_failed=True)
    assert (len(upstream.log), report.before.unknown) == (1, 1)
    await run(source, out, resend_unknown=True)
    assert len(upstream.log) == 2


async def test_a_get_that_is_said_to_do_something_is_not_sent_again_by_retry_failed(tmp_path, upstream, out):
    source = write(tmp_path / "in", {"url": f"{upstream.url}/reset", "idempotent": False})
    await run(source, out)
    report = await run(source, out, retry_failed=True)
    assert (len(upstream.log), report.before.unknown) == (1, 1)


async def test_a_failed_post_with_an_answer_is_sent_again_by_retry_failed(tmp_path, upstream, out):
    source = write(tmp_path / "in", {"url": f"{upstream.url}/flaky/a?fail=1&code=500", "method": "POST"})
    await run(source, out)
    await run(source, out, retry_failed=True)
    assert by_line(out)[1]["ok"]


def spilled(out):
    """Leave what a kill leaves of an ordered run whose first row was slow: two results that wait for their turn."""
    out.touch()
    journal = Journal(out)
    for line, status in ((2, 404), (3, 200)):
        error = {"error": {"type": "StatusError", "message": "x"}} if status == 404 else {}
        result = {"id": line, "line": line, "ok": status == 200, "status": status, "attempts": [], **error}
        journal.spill(line, json.dumps(result, separators=(",", ":")).encode())
    journal.close()


@pytest.mark.parametrize("name", ["out.jsonl", "out.sqlite"])
@pytest.mark.parametrize("ordered", [True, False])
async def test_results_that_wait_for_their_turn_are_kept_with_and_without_order(tmp_path, upstream, name, ordered):
    out = tmp_path / name
    source = write(tmp_path / "in", *urls(upstream, 1, 2, 3))
    spilled(out)
    report = await run(source, out, ordered=ordered)
    assert (report.exit_code, report.before.finished, report.before.failed) == (1, 2, 1)
    assert [arrival.target for arrival in upstream.log] == ["/ok/1"]
    again = await run(source, out, ordered=not ordered)
    assert (again.exit_code, again.before.finished, again.tally.sent) == (1, 3, 0)


async def test_a_failed_result_that_waits_for_its_turn_is_sent_again_when_asked(tmp_path, upstream, out):
    source = write(tmp_path / "in", *urls(upstream, 1, 2, 3))
    spilled(out)
    report = await run(source, out, ordered=True, retry_failed=True)
    assert (report.exit_code, report.tally.sent) == (0, 2)
    assert [row["line"] for row in results(out)] == [1, 2, 3]


async def test_a_refused_post_is_left_to_the_next_run_and_not_unknown(tmp_path, upstream, out):
    """PF-019: a refusal did nothing."""
    source = write(tmp_path / "in", {"url": f"{upstream.url}/limited/a?n=1&per=3600", "method": "POST"})
    upstream_url = f"{upstream.url}/limited/a?n=1&per=3600"
    await run(write(tmp_path / "first", upstream_url), None)
    assert (await run(source, out)).exit_code == 75
    upstream.clear()
    report = await run(source, out)
    assert (report.exit_code, by_line(out)[1]["ok"]) == (0, True)


async def test_a_key_is_the_same_after_a_kill_and_lets_a_post_be_repeated(tmp_path, upstream, out):
    """ID-05: one key per row, the same in the next run."""
    rows = [{"url": f"{upstream.url}/flaky/{n}?fail=2", "method": "POST"} for n in range(2)]
    source = write(tmp_path / "in", *rows)
    for _ in range(3):
        await run(source, out, ONCE, key_name="Idempotency-Key", retry_failed=True)
    keys = {}
    for arrival in upstream.log:
        headers = {name.lower(): value for name, value in arrival.headers}
        keys.setdefault(arrival.target, set()).add(headers["idempotency-key"])
    assert [len(found) for found in keys.values()] == [1, 1]
    assert len(set.union(*keys.values())) == 2
    assert all(row["ok"] for row in results(out))


async def test_a_key_of_another_name_lets_a_post_be_repeated_too(tmp_path, upstream, out):
    row = {"url": f"{upstream.url}/flaky/a?fail=1", "method": "POST"}
    await run(write(tmp_path / "in", row), out, key_name="X-Request-Key")
    assert by_line(out)[1]["ok"]
    assert len({dict(arrival.headers)["X-Request-Key"] for arrival in upstream.log}) == 1


async def test_a_table_goes_on_too(tmp_path, upstream):
    table = tmp_path / "out.sqlite"
    source = write(tmp_path / "in", *urls(upstream, *range(5)), f"{upstream.url}/flaky/a?fail=1")
    await run(source, table, ONCE)
    report = await run(source, table, ONCE, retry_failed=True)
    assert (report.exit_code, report.tally.sent) == (0, 1)


async def test_a_table_of_another_program_is_refused(tmp_path, upstream):
    import sqlite3

    table = tmp_path / "out.sqlite"
    db = sqlite3.connect(table)
    db.execute("CREATE TABLE results (precious)")
    db.close()
    before = table.read_bytes()
    with pytest.raises(OptionsError, match="exists"):
        await run(write(tmp_path / "in", *urls(upstream, 1)), table)
    assert table.read_bytes() == before


async def test_a_finished_journal_is_small_and_readable(tmp_path, upstream, out):
    rows = [{"url": f"{upstream.url}/ok/{n}?jitter=20", "method": "POST"} for n in range(100)]
    await run(write(tmp_path / "in", *rows), out, ordered=True)
    records = [json.loads(line) for line in sidecar(out).read_text().splitlines()]
    assert records[0]["comity"] == "journal"
    assert [set(record) for record in records[1:]] == [{"from", "digests"}] * (len(records) - 2) + [{"settled"}]
