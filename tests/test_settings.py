"""Settings: which source wins, and what a mistake says."""

from __future__ import annotations

import re
from base64 import b64encode
from inspect import signature
from pathlib import Path

import pytest

from comity.cli.dotenv import dotenv as variables_of
from comity.errors import OptionsError
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.units import NS
from comity.service.capture import KEPT
from comity.service.client import ServiceClient
from comity.service.limits import Limits
from comity.service.policies import FIELDS, Policies
from comity.service.retry_rules import RETRIES
from comity.service.service import Service
from comity.service.worker import WorkerOptions
from comity.settings import (
    HOST,
    TABLE,
    config_file,
    examine,
    from_environment,
    from_flags,
    from_toml,
    resolve,
    rows,
)
from comity.store.records import NewDelivery, Retention
from comity.web.shared import Shared


def sources(tmp_path, flags=None, environ=None, dotenv="", toml=""):
    (tmp_path / ".env").write_text(dotenv)
    (tmp_path / "c.toml").write_text(toml)
    return [
        from_flags(flags or {}),
        from_environment(environ or {}),
        from_environment(variables_of(tmp_path / ".env"), str(tmp_path / ".env")),
        from_toml(tmp_path / "c.toml"),
    ]


@pytest.mark.parametrize(
    ("said", "port"),
    [
        ({}, 3000),
        ({"toml": "port = 4"}, 4),
        ({"toml": "[comity]\nport = 4", "dotenv": "COMITY_PORT=3"}, 3),
        ({"toml": "port = 4", "dotenv": "COMITY_PORT=3", "environ": {"COMITY_PORT": "2"}}, 2),
        ({"dotenv": "COMITY_PORT=3", "environ": {"COMITY_PORT": "2"}, "flags": {"port": "1"}}, 1),
        ({"dotenv": "COMITY_PORT=3", "environ": {"COMITY_PORT": " "}, "flags": {"port": None}}, 3),
    ],
)
def test_flags_win_over_the_environment_over_dotenv_over_toml(tmp_path, said, port):
    """NP-035, NP-036: configured by environment file; the port is 3000 by default."""
    assert resolve(rows("api"), sources(tmp_path, **said))["port"] == port


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ({"flags": {"port": "x"}}, "--port="),
        ({"environ": {"COMITY_PORT": "x"}}, "COMITY_PORT="),
        ({"dotenv": "COMITY_PORT=x"}, "COMITY_PORT (in "),
        ({"toml": "port = 'x'"}, "port (in "),
    ],
)
def test_a_mistake_names_its_source_and_value(tmp_path, said, label):
    with pytest.raises(OptionsError) as refused:
        resolve(rows("api"), sources(tmp_path, **said))
    assert str(refused.value).startswith(label)
    assert "'x'" in str(refused.value)


def test_a_dotenv_file_may_quote_export_and_comment(tmp_path):
    dotenv = "# where\nexport COMITY_STORE='sqlite:///a b.db'\n\nOTHER=1\nCOMITY_ALLOW = 10.0.0.0/8,hooks.example\n"
    found = resolve(rows("store", "worker"), sources(tmp_path, dotenv=dotenv))
    assert (found["store"], found["allow"]) == ("sqlite:///a b.db", ["10.0.0.0/8", "hooks.example"])


def test_several_values_come_as_flags_or_lists(tmp_path):
    assert resolve(rows("worker"), sources(tmp_path, flags={"allow": ["a.example", "b.example"]}))["allow"] == [
        "a.example", "b.example"
    ]  # fmt: skip
    assert resolve(rows("worker"), sources(tmp_path, toml='allow = ["a.example"]\nallow_metadata = true'))["allow"] == [
        "a.example"
    ]


@pytest.mark.parametrize(
    "toml",
    [
        '[comity]\nport = 4\n[hosts."a.example"]\nconcurrency = 2\n[policies.gentle]\nmax_retries = 8',
        '[comity]\nport = 4\n[comity.hosts."a.example"]\nconcurrency = 2\n[policies.gentle]\nmax_retries = 8',
    ],
)
def test_hosts_and_policies_may_stand_beside_the_table_comity(tmp_path, toml):
    found = resolve(rows("api", "worker"), sources(tmp_path, toml=toml))
    assert (found["port"], found["hosts"]) == (4, {"a.example": {"concurrency": 2}})
    assert found["policies"]["gentle"].options == {"max_retries": 8}


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (
            "slots = 5\n[comity]\nport = 4",
            r"^slots \(in .*beside the table \[comity\].*needs one place, inside \[comity\]",
        ),
        ("[comity]\nport = 4\n[tool.x]\na = 1", r"^tool \(in .*only \[hosts\.NAME\] and \[policies\.NAME\] may stand"),
        ('[comity.hosts."a.example"]\n[hosts."b.example"]', r"^hosts \(in .*it stands in both places"),
    ],
)
def test_what_stands_beside_the_table_comity_and_means_nothing_there_is_refused(tmp_path, toml, said):
    with pytest.raises(OptionsError, match=said):
        sources(tmp_path, toml=toml)


@pytest.mark.parametrize(
    "broken", [{"dotenv": "COMITY_PORT"}, {"toml": "prot = 1"}, {"toml": "port ="}, {"toml": "comity = 1"}]
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, broken):
    with pytest.raises(OptionsError):
        sources(tmp_path, **broken)


def test_all_that_is_wrong_is_found_and_the_rest_can_be_used(tmp_path):
    told = sources(tmp_path, flags={"port": "x"}, environ={"COMITY_RATE": "fast", "COMITY_SLOTS": "7"})
    found, wrong = examine(rows("api", "worker"), told)
    assert (list(wrong), found["port"], found["rate"], found["slots"]) == (["port", "rate"], 3000, [], 7)


def test_a_rate_that_is_none_names_its_source(tmp_path):
    with pytest.raises(OptionsError, match=r"^COMITY_RATE='fast'"):
        resolve(rows("worker"), sources(tmp_path, environ={"COMITY_RATE": "50/5s,fast"}))


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ({"environ": {"COMITY_RATE": "2 tokens/s"}}, "COMITY_RATE="),
        ({"toml": '[hosts."a.example"]\nrate = "2 tokens/s"'}, 'hosts."a.example".rate (in '),
    ],
)
def test_a_rate_of_what_no_delivery_costs_is_refused(tmp_path, said, label):
    """It would limit nothing."""
    with pytest.raises(OptionsError) as refused:
        resolve(rows("worker"), sources(tmp_path, **said))
    assert str(refused.value).startswith(label)
    assert "it counts tokens" in str(refused.value)
    with pytest.raises(OptionsError) as garbled:
        resolve(rows("worker"), sources(tmp_path, environ={"COMITY_RATE": "fast"}))
    assert "tokens" not in str(garbled.value)


@pytest.mark.parametrize("said", [{"disable_after": "0s"}, {"lease": "0s"}, {"lease": "off"}])
def test_a_time_in_which_nothing_can_happen_is_refused(tmp_path, said):
    with pytest.raises(OptionsError, match=r"^--"):
        resolve(rows("worker"), sources(tmp_path, flags=said))
    assert resolve(rows("worker"), sources(tmp_path))["disable_after"] is None


def test_a_file_that_is_not_there_is_refused_when_it_was_named(tmp_path):
    assert variables_of(tmp_path / ".env") == {}
    with pytest.raises(OptionsError, match=r"none\.toml"):
        from_toml(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("flag", "variables", "named"),
    [
        ("f", ({"COMITY_CONFIG": "v"}, {}), ("f", "--config")),
        (None, ({"COMITY_CONFIG": "v"}, {"COMITY_CONFIG": "d"}), ("v", "COMITY_CONFIG")),
        (None, ({"COMITY_CONFIG": " "}, {"COMITY_CONFIG": "d"}), ("d", "COMITY_CONFIG")),
        (None, ({}, {}), (None, "COMITY_CONFIG")),
    ],
)
def test_the_file_is_named_by_a_flag_or_a_variable(flag, variables, named):
    file, option = config_file(flag and Path(flag), *variables)
    assert (file and str(file), option) == named


def test_a_file_that_a_variable_names_and_that_is_not_there_is_refused_by_its_name(tmp_path):
    with pytest.raises(OptionsError, match=r"^COMITY_CONFIG="):
        from_toml(tmp_path / "none.toml", "COMITY_CONFIG")


def test_a_secret_has_no_flag_and_is_not_told(tmp_path):
    assert [row.flag for row in TABLE if row.secret] == [None, None, None]
    found = resolve(rows("client"), sources(tmp_path, environ={"COMITY_TOKEN": "hunter2"}))
    assert found["token"] == "hunter2"


def test_hosts_and_policies_are_tables_of_the_file_alone(tmp_path):
    toml = """
        rate = "1/s"
        [hosts."api.example.com"]
        rate = ["50/5s", "1000/h"]
        concurrency = 4
        min_gap = "100ms"
        adaptive = "auto"
        [hosts."127.0.0.1:80"]
        concurrency = "off"
        adaptive = false
        obey_quotas = false
        [policies.gentle]
        max_retries = 8
    """
    found = resolve(rows("api", "worker"), sources(tmp_path, toml=toml, environ={"COMITY_HOSTS": "x"}))
    assert found["hosts"] == {
        "api.example.com": {
            "rate": [Rate.of("50/5s", measured="server"), Rate.of("1000/h", measured="server")],
            "concurrency": 4, "min_gap": 0.1, "adaptive": "auto",
        },
        "127.0.0.1:80": {"concurrency": None, "adaptive": None, "obey_quotas": False},
    }  # fmt: skip
    assert found["policies"]["gentle"].options == {"max_retries": 8}
    assert [(row.name, row.flag) for row in TABLE if row.table] == [("hosts", None), ("policies", None)]
    assert resolve(rows("api", "worker"), sources(tmp_path))["hosts"] == {}


def test_every_rate_of_the_service_holds_where_it_arrives(tmp_path):
    """Whether it is said of all origins, of a host or of a lane."""
    toml = 'rate = "50/5s"\n[hosts."api.example.com"]\nrate = "50/5s"'
    found = resolve(rows("worker"), sources(tmp_path, toml=toml))
    lane = Limits(rate="50/5s").policy(Policy())
    rates = [found["rate"], found["hosts"]["api.example.com"]["rate"], list(lane.rate)]
    assert rates == [[Rate.of("50/5s", measured="server")]] * 3


def test_tables_may_stand_under_a_table_of_comity(tmp_path):
    found = resolve(rows("worker"), sources(tmp_path, toml='[comity.hosts."a.example"]\nconcurrency = 2'))
    assert found["hosts"] == {"a.example": {"concurrency": 2}}


@pytest.mark.parametrize(
    ("toml", "label", "allowed"),
    [
        ('[hosts."a.example"]\nrate = "fast"', "hosts.\"a.example\".rate (in {})='fast'", "100/min"),
        ('[hosts."a.example"]\nconcurrency = 0', 'hosts."a.example".concurrency (in {})=0', "1 or more"),
        ('[hosts."a.example"]\nmin_gap = "x"', "hosts.\"a.example\".min_gap (in {})='x'", "250ms"),
        ('[hosts."a.example"]\nadaptive = "yes"', "hosts.\"a.example\".adaptive (in {})='yes'", '"ema"'),
        ('[hosts."a.example"]\nrates = "1/s"', 'hosts."a.example".rates (in {})', "did you mean rate?"),
        ('[hosts."a.example"]\nspeed = 1', 'hosts."a.example".speed (in {})', "rate, concurrency, min_gap"),
        ('[hosts."a.example"]\nconcurrency = "off"\nadaptive = "ema"', 'hosts."a.example".concurrency', '"ema"'),
        ('[hosts."a..b"]\nrate = "1/s"', "hosts (in {})='a..b'", "api.example.com"),
        ('[hosts."POST a.example"]\nrate = "1/s"', "hosts (in {})='POST a.example'", "api.example.com"),
        ("hosts = 1", "hosts (in {})=1", "[hosts.NAME]"),
        ('[hosts]\n"a.example" = 1', 'hosts."a.example" (in {})=1', "[hosts.NAME]"),
        ("[policies]\ngentle = 1", 'policies."gentle" (in {})=1', "[policies.NAME]"),
    ],
)
def test_a_mistake_in_a_table_names_file_table_and_key(tmp_path, toml, label, allowed):
    with pytest.raises(OptionsError) as refused:
        resolve(rows("api", "worker"), sources(tmp_path, toml=toml))
    assert str(refused.value).startswith(label.format(tmp_path / "c.toml"))
    assert allowed in str(refused.value)


def test_the_example_of_the_document_can_be_read(tmp_path):
    text = (Path(__file__).parent.parent / "docs" / "service.md").read_text(encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    found = resolve(rows("api", "worker"), sources(tmp_path, toml=toml))
    assert set(found["hosts"]["api.example.com"]) == {row.name for row in HOST}
    assert set(found["policies"]["gentle"].options) == set(FIELDS)
    assert Policies(found["policies"]).names == ["gentle"]


KEY = bytes(range(32))


@pytest.mark.parametrize("text", [KEY.hex(), KEY.hex().upper(), b64encode(KEY).decode(), f" {KEY.hex()} "])
def test_a_key_is_32_bytes_in_base64_or_hex(tmp_path, text):
    found = resolve(rows("worker"), sources(tmp_path, environ={"COMITY_ENCRYPTION_KEYS": text}))
    assert found["encryption_keys"] == [KEY]


@pytest.mark.parametrize("text", ["hunter2", KEY.hex()[:-2], b64encode(KEY[:-1]).decode(), "é" * 44, f"{KEY.hex()},x"])
def test_what_is_no_key_is_refused_without_being_shown(tmp_path, text):
    with pytest.raises(OptionsError, match="openssl rand -base64 32") as refused:
        resolve(rows("worker"), sources(tmp_path, environ={"COMITY_ENCRYPTION_KEYS": text}))
    assert text not in str(refused.value)
    assert str(refused.value).startswith("COMITY_ENCRYPTION_KEYS")


def test_secret_headers_are_names(tmp_path):
    found = resolve(rows("worker"), sources(tmp_path, environ={"COMITY_SECRET_HEADERS": "X-Customer, X-Tenant"}))
    assert found["secret_headers"] == ["X-Customer", "X-Tenant"]
    with pytest.raises(OptionsError, match=r"^--secret-headers='a b'"):
        resolve(rows("worker"), sources(tmp_path, flags={"secret_headers": ["a b"]}))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_default_can_be_read(row):
    if row.default is not None:
        row.read(row.default, row.name)


def test_the_document_has_every_setting_with_its_default():
    text = (Path(__file__).parent.parent / "docs" / "service.md").read_text(encoding="utf-8")
    text = text.partition("\n## Settings\n")[2]
    told = dict(re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\| (?:`([^`]*)`)? *\|", text, re.MULTILINE))
    assert told == {row.name: row.default or "" for row in TABLE}


def test_what_the_service_does_by_itself_is_what_the_table_says_by_default():
    """A program that runs it without the command line is told no other numbers than the documents have."""
    told, worker, kept = resolve(TABLE, []), WorkerOptions(), Retention()
    own = {
        "slots": worker.slots,
        "lease": worker.lease / NS,
        "concurrency": worker.policy.concurrency,
        "keep_body": KEPT,
        "keep_ended": kept.completed / NS,
        "keep_failed": kept.failed / NS,
        "drain": signature(Service).parameters["drain"].default,
        "max_request": signature(Shared).parameters["max_body"].default,
        "url": signature(ServiceClient).parameters["url"].default,
    }
    assert {name: told[name] for name in own} == own
    assert kept.cancelled == kept.completed
    assert NewDelivery(origin="", method="", url="").max_attempts == RETRIES + 1
