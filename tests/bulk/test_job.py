"""A run from its input to its exit code, against a real server."""

from __future__ import annotations

import gzip
import json
import sqlite3

import pytest

from comity.bulk.body import BodyTemplate
from comity.bulk.template import UrlTemplate
from comity.errors import OptionsError, StoreError
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from tests.bulk.harness import QUICK, Job, bulk_job, by_line, results, run, sends, write

FIELDS = ["id", "line", "url", "method", "ok", "status", "body", "elapsed", "attempts"]


async def test_a_result_line_has_the_documented_fields(tmp_path, upstream):
    source = write(
        tmp_path / "in", {"url": f"{upstream.url}/flaky/a?fail=1&code=503", "id": "x"}, f"{upstream.url}/status/404"
    )
    report = await run(source, tmp_path / "out")
    found = by_line(tmp_path / "out")
    first, second = found[1], found[2]
    assert report.exit_code == 1
    assert list(first) == FIELDS
    assert list(second) == [*FIELDS, "error"]
    assert (first["id"], first["line"], first["method"], first["ok"], first["status"]) == ("x", 1, "GET", True, 200)
    assert [(each["number"], each["status"], each["sent"]) for each in first["attempts"]] == [
        (1, 503, "yes"),
        (2, 200, "yes"),
    ]
    assert set(first["attempts"][0]["timings"]) >= {"queue", "connect", "response", "total"}
    assert first["attempts"][1]["waited"] >= 0.01
    assert (second["id"], second["ok"], second["status"]) == (2, False, 404)
    assert second["error"] == {"type": "StatusError", "message": "answered 404 Not Found"}


async def test_one_bad_row_ends_nothing(tmp_path, upstream):
    """BK-05: rows 3, 5 and 7 are told with their line, the other seven are good."""
    rows = [{"url": f"{upstream.url}/ok/{number}"} for number in range(1, 11)]
    rows[2], rows[4], rows[6] = "{not json", {"url": "gopher://x/"}, {"url": f"{upstream.url}/status/500"}
    report = await run(write(tmp_path / "in", *rows), tmp_path / "out")
    found = by_line(tmp_path / "out")
    assert (report.exit_code, report.tally.ok, report.tally.failed) == (1, 7, 3)
    assert {line: row["error"]["type"] for line, row in found.items() if not row["ok"]} == {
        3: "invalid",
        5: "invalid",
        7: "StatusError",
    }
    assert "line 3" in found[3]["error"]["message"]
    assert "line 5, field url" in found[5]["error"]["message"]
    assert len(found[7]["attempts"]) == 3


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("status/200?type=application/json&body=[1.10,12345678901234567890123]", "[1.10,12345678901234567890123]"),
        ("status/200?type=application/json&body={%0A%20%22a%22:1%0A}", '{  "a":1 }'),
        ("status/200?type=text/plain&body=h%C3%A9", '"hé"'),
        ("status/200?type=application/octet-stream&body=%00%C3%BF", '{"base64":"AMO/"}'),
        ("status/204", "null"),
    ],
)
async def test_a_body_keeps_what_it_says(tmp_path, upstream, path, body):
    await run(write(tmp_path / "in", f"{upstream.url}/{path}"), tmp_path / "out")
    assert f'"body":{body},' in (tmp_path / "out").read_text(encoding="utf-8")


async def test_a_body_that_says_json_and_is_none_is_an_error(tmp_path, upstream):
    await run(write(tmp_path / "in", f"{upstream.url}/status/200?type=application/json&body=oops"), tmp_path / "out")
    (row,) = results(tmp_path / "out")
    assert (row["ok"], row["status"], row["body"], row["error"]["type"]) == (False, 200, "oops", "BadResponse")


@pytest.mark.parametrize(
    ("kind", "body", "kept"),
    [
        ("application/json", "{%22a%22:[%22%5Cud800x%22]}", {"a": ["\ufffdx"]}),
        ("text/plain;charset=utf-7", "%2B2AA-", "\ufffd"),
        ("text/plain;charset=punycode", "abc-%C3%BF", "abc-\u00ff"),
        ("application/json", "[" * 1500 + "]" * 1500, "[" * 1500 + "]" * 1500),
    ],
)
async def test_a_body_that_no_line_of_json_can_hold_ends_no_run(tmp_path, upstream, kind, body, kept):
    source = write(tmp_path / "in", f"{upstream.url}/status/200?type={kind}&body={body}", f"{upstream.url}/ok/1")
    await run(source, tmp_path / "out")
    found = by_line(tmp_path / "out")
    assert found[2]["ok"]
    assert found[1]["body"] == kept
    assert (await run(source, tmp_path / "out")).tally.sent == 0


async def test_an_ordered_run_goes_on_when_its_first_row_ends_last(tmp_path, upstream):
    rows = [f"{upstream.url}/ok/{n}?ms={300 if n == 0 else 0}" for n in range(300)]
    await run(write(tmp_path / "in", *rows), tmp_path / "out", Policy(concurrency=4), ordered=True)
    assert [row["line"] for row in results(tmp_path / "out")] == list(range(1, 301))


async def test_bodies_can_be_left_out_and_are_bounded(tmp_path, upstream):
    """HB-01"""
    source = write(tmp_path / "in", f"{upstream.url}/ok/1?bytes=2000")
    await run(source, tmp_path / "none", keep_body=False)
    await run(source, tmp_path / "small", max_body=1000)
    assert results(tmp_path / "none")[0]["body"] is None
    assert results(tmp_path / "small")[0]["error"]["type"] == "BadResponse"


async def test_no_secret_of_a_url_stands_in_a_result(tmp_path, upstream):
    """SC-01"""
    rows = [
        f"{upstream.url}/status/403?api_key=SECRET123&x=1",
        f"http://u:PW1@127.0.0.1:{upstream.port}/ok/1?token=SECRET123",
    ]
    await run(write(tmp_path / "in", *rows), tmp_path / "out")
    text = (tmp_path / "out").read_text()
    assert "SECRET123" not in text
    assert "PW1" not in text
    assert "x=1" in text


async def test_a_closed_port_is_told_and_the_rest_runs(tmp_path, upstream, unused_tcp_port):
    source = write(tmp_path / "in", f"http://127.0.0.1:{unused_tcp_port}/", f"{upstream.url}/ok/1")
    await run(source, tmp_path / "out")
    found = by_line(tmp_path / "out")
    assert found[1]["error"]["type"] == "ConnectFailed"
    assert [each["sent"] for each in found[1]["attempts"]] == ["no"] * 3
    assert found[2]["ok"]


async def test_a_row_sends_its_method_headers_params_and_body(tmp_path, upstream):
    row = {
        "url": f"{upstream.url}/echo?a=%2F",
        "method": "post",
        "params": {"q": "x y", "n": [1, 2]},
        "headers": {"X-Own": "1"},
        "json": {"b": 1.10},
    }
    await run(write(tmp_path / "in", row), tmp_path / "out", headers={"X-Common": "2"})
    (found,) = results(tmp_path / "out")
    (arrival,) = upstream.log
    assert arrival.target == "/echo?a=%2F&q=x%20y&n=1&n=2"
    assert found["body"]["body"]["text"] == '{"b": 1.1}'
    sent = {name.lower(): value for name, value in arrival.headers}
    assert (sent["x-own"], sent["x-common"], sent["content-type"]) == ("1", "2", "application/json")


async def test_equal_ids_each_get_a_result(tmp_path, upstream):
    source = write(tmp_path / "in", *[{"url": f"{upstream.url}/ok/{n}", "id": "same"} for n in range(5)])
    await run(source, tmp_path / "out")
    assert [row["id"] for row in by_line(tmp_path / "out").values()] == ["same"] * 5


async def test_tables_fill_a_template_with_encoded_values(tmp_path, upstream):
    (tmp_path / "in.csv").write_text('id,user\n1,a/b\n2,"x\ny"\n\n3,"c""d"\n4\n5,e,f\n', encoding="utf-8")
    await run(tmp_path / "in.csv", tmp_path / "out", template=UrlTemplate(upstream.url + "/ok/{user}"))
    found = by_line(tmp_path / "out")
    assert {line: row["id"] for line, row in found.items() if row["ok"]} == {2: "1", 3: "2", 6: "3"}
    assert set(sends(upstream)) == {"/ok/a%2Fb", "/ok/x%0Ay", "/ok/c%22d"}
    assert "column 'user'" in found[7]["error"]["message"]
    assert "3 values for 2 columns" in found[8]["error"]["message"]


async def test_a_table_may_be_separated_by_anything_and_sends_bodies(tmp_path, upstream):
    (tmp_path / "in.csv").write_text('sku;n\n"a;b";3\n', encoding="utf-8")
    options = {"template": UrlTemplate(upstream.url + "/echo?{n}"), "body": BodyTemplate('["{sku}", {n}]', "--json")}
    await run(tmp_path / "in.csv", tmp_path / "out", delimiter=";", id_column="sku", **options)
    (found,) = results(tmp_path / "out")
    assert (found["id"], found["method"], found["body"]["body"]["text"]) == ("a;b", "POST", '["a;b", 3]')
    with pytest.raises(OptionsError, match="--json is missing"):
        await run(tmp_path / "in.csv", tmp_path / "out", delimiter=";", id_column="sku", template=options["template"])


async def test_tabs_and_gzip_are_read_too(tmp_path, upstream):
    (tmp_path / "in.tsv.gz").write_bytes(gzip.compress(f"url\tid\n{upstream.url}/ok/1\ta\n".encode()))
    await run(tmp_path / "in.tsv.gz", tmp_path / "out")
    assert results(tmp_path / "out")[0]["id"] == "a"


async def test_lines_count_on_through_several_inputs(tmp_path, upstream):
    first = write(tmp_path / "a", f"{upstream.url}/ok/1", "", f"{upstream.url}/ok/2")
    second = write(tmp_path / "b.csv", "url", f"{upstream.url}/ok/3")
    await bulk_job.run(Job(inputs=(str(first), str(second)), output=str(tmp_path / "out"), progress="off"))
    found = by_line(tmp_path / "out")
    assert {line: row["input"] for line, row in found.items()} == {1: str(first), 3: str(first), 5: str(second)}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("in.csv", "id\n1\n", "column named url"),
        ("in.csv", "id;url\n1;http://a/\n", "separated by ';'; give --delimiter"),
        ("in.json", '[\n{"url": "http://a/"}\n]\n', "jq -c"),
        ("in.jsonl", None, "UTF-16"),
    ],
)
async def test_an_input_of_no_known_form_is_refused_before_anything_is_sent(tmp_path, upstream, name, text, says):
    path = tmp_path / name
    path.write_bytes("http://a/".encode("utf-16") if text is None else text.encode())
    report = await run(path, None)
    assert (report.exit_code, upstream.log) == (2, [])
    assert says in str(report.error)


async def test_an_input_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(OptionsError, match=r"INPUT=.*no such file"):
        await run(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


async def test_a_gzip_cut_short_halts_the_run_after_what_could_be_read(tmp_path, upstream):
    lines = "".join(f"{upstream.url}/ok/{n}\n" for n in range(2000)).encode()
    (tmp_path / "in.gz").write_bytes(gzip.compress(lines)[:-8])
    report = await run(tmp_path / "in.gz", tmp_path / "out")
    assert report.exit_code == 3
    assert "in.gz: the gzip stream ends before" in report.lines()[-2]


async def test_ordered_results_stand_in_the_order_of_the_input(tmp_path, upstream):
    source = write(tmp_path / "in", *[f"{upstream.url}/ok/{n}?jitter=30" for n in range(200)])
    await run(source, tmp_path / "out", ordered=True)
    assert [row["line"] for row in results(tmp_path / "out")] == list(range(1, 201))


async def test_rows_go_on_while_others_wait_for_their_next_attempt(tmp_path, upstream):
    """CP-082: a wait between attempts holds no slot here."""
    slow = Retry(attempts=2, backoff=lambda info: 0.5)
    rows = [f"{upstream.url}/flaky/{n}?fail=1" for n in range(8)] + [f"{upstream.url}/ok/{n}" for n in range(20)]
    await run(write(tmp_path / "in", *rows), tmp_path / "out", Policy(concurrency=2, retry=slow))
    lines = [row["line"] for row in results(tmp_path / "out")]
    assert sorted(lines[:20]) == list(range(9, 29))


async def test_a_slow_host_does_not_hold_up_another(tmp_path, upstream):
    rows = [f"{upstream.url}/delay/100"] * 20 + [f"http://localhost:{upstream.port}/ok/{n}" for n in range(50)]
    await run(write(tmp_path / "in", *rows), tmp_path / "out", Policy(concurrency=2))
    lines = [row["line"] for row in results(tmp_path / "out")]
    assert set(lines[:54]) > set(range(21, 71))


async def test_an_urgent_row_goes_before_others_that_were_read(tmp_path, upstream):
    rows = [{"url": f"{upstream.url}/delay/5?n={n}"} for n in range(30)]
    rows[29]["priority"] = 0
    await run(write(tmp_path / "in", *rows), tmp_path / "out", Policy(concurrency=1))
    targets = [arrival.target for arrival in upstream.log]
    assert targets.index("/delay/5?n=29") <= 3


async def test_no_window_at_the_server_is_over_the_limit(tmp_path, upstream):
    rows = [f"{upstream.url}/ok/{n}?jitter=60" for n in range(120)]
    rate = Rate(20, 0.4, measured="server")
    report = await run(write(tmp_path / "in", *rows), tmp_path / "out", Policy(rate=rate, concurrency=20))
    assert report.exit_code == 0
    assert upstream.peak("/ok", 0.4) <= 20


async def test_a_server_that_asks_for_a_long_wait_is_left_alone_and_others_are_finished(tmp_path, upstream):
    """PF-017, PF-018: exit 75; the row that was refused and those behind it are left undone."""
    rows = [f"{upstream.url}/status/429?retry_after=3600"] * 30 + [
        f"http://localhost:{upstream.port}/ok/{n}" for n in range(30)
    ]
    report = await run(write(tmp_path / "in", *rows), tmp_path / "out", Policy(concurrency=2, retry=QUICK))
    assert report.exit_code == 75
    assert set(by_line(tmp_path / "out")) == set(range(31, 61))
    assert len(upstream.arrivals("/status")) <= 2
    assert report.tally.undone == 30
    assert any("resume after" in line for line in report.lines())


async def test_an_ordered_run_stops_where_a_host_is_blocked_and_goes_on_in_order(tmp_path, upstream):
    rows = [f"{upstream.url}/ok/{n}?jitter=10" for n in range(20)]
    rows[5] = f"http://localhost:{upstream.port}/limited/a?n=1&per=3600"
    await run(write(tmp_path / "first", rows[5]), None)
    source = write(tmp_path / "in", *rows)
    report = await run(source, tmp_path / "out", ordered=True)
    assert (report.exit_code, [row["line"] for row in results(tmp_path / "out")]) == (75, [1, 2, 3, 4, 5])
    upstream.clear()
    await run(source, tmp_path / "out", ordered=True)
    assert [row["line"] for row in results(tmp_path / "out")] == list(range(1, 21))


async def test_a_wait_beyond_a_rows_deadline_fails_the_row_and_blocks_nothing(tmp_path, upstream):
    rows = [f"{upstream.url}/status/429?retry_after=5", f"http://localhost:{upstream.port}/ok/1"]
    report = await run(write(tmp_path / "in", *rows), tmp_path / "out", Policy(deadline=0.5, retry=QUICK))
    assert (report.exit_code, report.resume_at) == (1, None)
    assert by_line(tmp_path / "out")[1]["error"]["type"] == "RateLimited"


async def test_hosts_that_share_a_block_are_all_left_for_later(tmp_path, upstream):
    """PF-006: subdomains share the limiter of their domain, and its block."""
    rows = [f"http://localhost:{upstream.port}/status/429?retry_after=3600"]
    rows += [f"http://a.localhost:{upstream.port}/ok/{n}" for n in range(3)]
    policy = Policy(concurrency=1, retry=QUICK)
    report = await run(
        write(tmp_path / "in", *rows), tmp_path / "out", policy, hosts={"localhost": policy}, ordered=False
    )
    assert report.exit_code == 75
    assert by_line(tmp_path / "out") == {}


async def test_a_block_of_one_group_leaves_the_hosts_other_rows_alone(tmp_path, upstream):
    rows = [f"{upstream.url}/status/429?retry_after=3600", f"{upstream.url}/ok/1", f"{upstream.url}/status/200"]
    hosts = {f"127.0.0.1:{upstream.port}/status/*": Policy(concurrency=1, retry=QUICK)}
    report = await run(write(tmp_path / "in", *rows), tmp_path / "out", hosts=hosts)
    assert report.exit_code == 75
    assert set(by_line(tmp_path / "out")) == {2}
    assert not [line for line in report.lines() if "matched no request" in line]


async def test_a_group_that_no_row_belongs_to_is_told(tmp_path, upstream):
    hosts = {"127.0.0.1/x/*": Policy(), "127.0.0.1": Policy(group="json:model")}
    rows = [f'{{"url": "{upstream.url}/ok/1", "method": "POST", "json": {{"model": "a"}}}}']
    report = await run(write(tmp_path / "in", *rows), tmp_path / "out", hosts=hosts)
    found = [line for line in report.lines() if "matched no request" in line]
    assert found == ["--host '127.0.0.1/x/*' matched no request; the hosts are 127.0.0.1 [model=a]"]


async def test_a_wait_within_the_limit_is_waited_out(tmp_path, upstream):
    """PF-012"""
    rows = [f"{upstream.url}/limited/a?n=5&per=0.3&retry_after=0.3"] * 12
    report = await run(write(tmp_path / "in", *rows), tmp_path / "out")
    assert report.exit_code == 0
    assert report.tally.refused > 0


async def test_a_row_out_of_time_is_a_failed_row(tmp_path, upstream):
    rows = [f"{upstream.url}/hang", f"{upstream.url}/ok/1"]
    policy = Policy(timeout=Timeout(attempt=0.1), retry=Retry(attempts=1))
    await run(write(tmp_path / "in", *rows), tmp_path / "out", policy)
    found = by_line(tmp_path / "out")
    assert found[1]["error"]["type"] == "TimedOut"
    assert found[2]["ok"]


async def test_a_cost_over_its_limit_is_an_invalid_row(tmp_path, upstream):
    rows = [
        {"url": f"{upstream.url}/ok/1", "cost": {"tokens": 500}},
        {"url": f"{upstream.url}/ok/2", "cost": {"tokens": 5}},
    ]
    await run(write(tmp_path / "in", *rows), tmp_path / "out", Policy(rate="100 tokens/min"))
    found = by_line(tmp_path / "out")
    assert found[1]["error"]["type"] == "invalid"
    assert found[2]["ok"]


async def test_a_full_disk_is_an_error_that_leaves_nothing_hanging(tmp_path, upstream):
    source = write(tmp_path / "in", *[f"{upstream.url}/ok/{n}" for n in range(100)])
    report = await run(source, "/dev/full")
    assert report.exit_code == 1
    assert isinstance(report.error, StoreError)
    assert "No space left" in report.lines()[-2]


async def test_a_table_can_be_asked_in_sql(tmp_path, upstream):
    rows = [f"{upstream.url}/ok/1", {"url": f"{upstream.url}/status/200?type=image/png&body=%00", "id": "x"}, "oops"]
    await run(write(tmp_path / "in", *rows), tmp_path / "out.sqlite")
    with sqlite3.connect(tmp_path / "out.sqlite") as db:
        found = db.execute(
            "SELECT line, id, ok, status, typeof(body), error_type FROM results ORDER BY line"
        ).fetchall()
        assert found == [
            (1, 1, 1, 200, "text", None),
            (2, "x", 1, 200, "blob", None),
            (3, 3, 0, None, "null", "invalid"),
        ]
        assert json.loads(db.execute("SELECT body FROM results WHERE line = 1").fetchone()[0])["id"] == "1"
    db.close()


async def test_a_table_that_cannot_be_made_is_told(tmp_path, upstream):
    (tmp_path / "folder.sqlite").mkdir()
    with pytest.raises(OptionsError, match="directory"):
        await run(write(tmp_path / "in", f"{upstream.url}/ok/1"), tmp_path / "folder.sqlite")


async def test_a_table_that_somebody_locks_is_an_error(tmp_path, upstream):
    source = write(tmp_path / "in", f"{upstream.url}/ok/1")
    await run(source, tmp_path / "out.sqlite")
    write(source, f"{upstream.url}/ok/1", f"{upstream.url}/ok/2")
    other = sqlite3.connect(tmp_path / "out.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OptionsError, match="locked"):
        await run(source, tmp_path / "out.sqlite")
    other.execute("ROLLBACK")
    other.close()
