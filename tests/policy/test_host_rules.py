"""HostRules: which rules hold for a host, by exact name, subdomain, port and spelling."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.host_rules import HostRules
from comity.policy.json_path import JsonPath
from comity.policy.options import Policy

RULES = {
    "deezer.com": Policy(concurrency=1),
    "api.deezer.com": Policy(concurrency=2),
    "deezer.com:8443": Policy(concurrency=3),
    "127.0.0.1:8471": Policy(concurrency=4),
    "[2001:DB8::1]": Policy(concurrency=5),
    "[::1]:8471": Policy(concurrency=6),
    "Example.ORG.": Policy(concurrency=7),
}


@pytest.mark.parametrize(
    ("host", "concurrency"),
    [
        ("deezer.com", 1),
        ("www.deezer.com", 1),
        ("a.b.deezer.com", 1),
        ("DEEZER.com", 1),
        ("deezer.com.", 1),
        ("deezer.com:8080", 1),
        ("api.deezer.com", 2),
        ("v2.api.deezer.com", 2),
        ("api.deezer.com:8443", 2),
        ("deezer.com:8443", 3),
        ("www.deezer.com:8443", 3),
        ("127.0.0.1:8471", 4),
        ("127.0.0.1", 10),
        ("127.0.0.1:8472", 10),
        ("[2001:db8::1]", 5),
        ("[2001:db8:0:0::1]", 5),
        ("2001:db8::1", 5),
        ("[2001:db8::1]:8080", 5),
        ("[::1]:8471", 6),
        ("[::1]", 10),
        ("example.org", 7),
        ("www.example.org.", 7),
        ("notdeezer.com", 10),
        ("8.127.0.0.1:8471", 10),
        ("deezer.com.evil.example", 10),
        ("com", 10),
        ("", 10),
    ],
)
def test_the_longest_key_that_covers_a_host_has_its_rules(host, concurrency):
    """PF-003 PF-004 PF-006: exact names and subdomains, ports, IPv6, upper case, the root's dot."""
    assert HostRules(hosts=RULES).match(host)[1].concurrency == concurrency


def test_a_mapping_changes_single_options_of_the_default():
    rules = HostRules(Policy(concurrency=3, rate="1/s"), {"slow.example": {"concurrency": 1}})
    assert rules.match("slow.example")[1] == Policy(concurrency=1, rate="1/s")
    assert rules.match("other.example")[1] == Policy(concurrency=3, rate="1/s")


@pytest.mark.parametrize(
    "key",
    ["", ".", ".deezer.com", "https://deezer.com", "*.deezer.com", "a b", "bücher.de", "deezer.com:",
     "deezer.com:http", "deezer.com:0", "[::1", "[::1]:x", "a@b", "a..b", "0.0.1", "1"],
)  # fmt: skip
def test_a_key_that_names_no_host_is_refused(key):
    with pytest.raises(OptionsError, match=r"hosts.*host name"):
        HostRules(hosts={key: Policy()})


def test_two_keys_for_one_host_are_refused():
    with pytest.raises(OptionsError, match="same host"):
        HostRules(hosts={"deezer.com": Policy(), "Deezer.com.": Policy()})


@pytest.mark.parametrize("value", ["50/5s", None, 5])
def test_rules_that_are_no_policy_are_refused(value):
    with pytest.raises(OptionsError, match=r"deezer\.com"):
        HostRules(hosts={"deezer.com": value})


class Asked:
    """A request, as far as rules look at it."""

    def __init__(self, method: str = "GET", path: str = "/", body: object = None) -> None:
        self.method, self.path, self.body = method, path, body

    def field(self, path: JsonPath) -> object:
        return path.find(self.body)


GROUPS = HostRules(
    Policy(concurrency=9),
    {
        "api.x.com": Policy(concurrency=1),
        "POST api.x.com": Policy(concurrency=2),
        "api.x.com/search/*": Policy(concurrency=3),
        "api.x.com/v1/chat json:model=gpt-*": Policy(concurrency=4),
        "x.com/status": Policy(concurrency=5),
        "old.x.com json:n=7": Policy(concurrency=6),
        "old.x.com json:on=true": Policy(concurrency=7),
        "llm.com": Policy(concurrency=8, group="json:model"),
    },
)


@pytest.mark.parametrize(
    ("host", "asked", "name", "concurrency"),
    [
        ("api.x.com", Asked(), "api.x.com", 1),
        ("v2.api.x.com", Asked(path="/search/users"), "api.x.com/search/*", 3),
        ("api.x.com", Asked(path="/search"), "api.x.com", 1),
        ("api.x.com", Asked("POST", "/search/users"), "POST api.x.com", 2),
        ("api.x.com", Asked(path="/v1/chat", body={"model": "gpt-4"}), "api.x.com/v1/chat json:model=gpt-*", 4),
        ("api.x.com", Asked(path="/v1/chat", body={"model": "o3"}), "api.x.com", 1),
        ("api.x.com", Asked(path="/v1/chat", body=["gpt-4"]), "api.x.com", 1),
        ("api.x.com", Asked(path="/status"), "api.x.com", 1),
        ("www.x.com", Asked(path="/status"), "x.com/status", 5),
        ("www.x.com", Asked(path="/status/2"), "www.x.com", 9),
        ("old.x.com:81", Asked(body={"n": 7}), "old.x.com json:n=7", 6),
        ("old.x.com", Asked(body={"n": 7, "on": True}), "old.x.com json:n=7", 6),
        ("old.x.com", Asked(body={"on": True}), "old.x.com json:on=true", 7),
        ("old.x.com", Asked(body={"on": None}), "old.x.com", 9),
        ("old.x.com", Asked(path="/status", body={"on": [1]}), "x.com/status", 5),
        ("llm.com", Asked(body={"model": "a"}), "llm.com [model=a]", 8),
        ("llm.com", Asked(body={"model": 1.5}), "llm.com [model=1.5]", 8),
        ("llm.com", Asked(body={}), "llm.com", 8),
    ],
)
def test_the_first_group_that_a_request_belongs_to_has_its_rules(host, asked, name, concurrency):
    rule = GROUPS.match(host, asked)
    assert (rule.name, rule.policy.concurrency) == (name, concurrency)


def test_without_a_request_the_rules_are_those_of_the_host_as_a_whole():
    assert GROUPS.match("api.x.com").name == "api.x.com"
    assert GROUPS.match("llm.com").name == "llm.com"


def test_a_host_is_grouped_when_its_requests_may_have_different_limits():
    hosts = ("api.x.com", "www.x.com", "llm.com", "y.com")
    assert [GROUPS.grouped(host) for host in hosts] == [True, True, True, False]


def test_all_policies_are_known_so_that_their_reach_is():
    assert {policy.concurrency for policy in GROUPS.policies} == set(range(1, 10))


def test_a_long_value_is_told_apart_by_its_digest():
    names = [GROUPS.match("llm.com", Asked(body={"model": "m" * 100 + end})).name for end in "ab"]
    assert names[0] != names[1]
    assert all(len(name) < 100 for name in names)


@pytest.mark.parametrize(
    "key",
    ["a b", "get x.com", "GET x.com /a", "x.com json:model", "x.com json:=a", "x.com json:a=", "x.com json:a..b=c",
     "G(T x.com", "/x", "POST /x"],
)  # fmt: skip
def test_a_group_that_cannot_be_read_is_refused(key):
    with pytest.raises(OptionsError, match="hosts"):
        HostRules(hosts={key: Policy()})


@pytest.mark.parametrize("again", ["GET X.com/a", "GET  x.com/a"])
def test_a_group_that_is_named_twice_is_refused(again):
    with pytest.raises(OptionsError, match="another key"):
        HostRules(hosts={"GET x.com/a": Policy(), again: Policy()})


@pytest.mark.parametrize("group", ["model", "json:", "json:a..b", "header:x", 7])
def test_what_requests_are_grouped_by_has_to_be_a_place_in_json(group):
    with pytest.raises(OptionsError, match="group"):
        Policy(group=group)


def test_a_rule_is_shown_by_its_place():
    assert repr(JsonPath("a.b", "hosts")) == "'a.b'"


def test_what_is_no_mapping_is_refused():
    with pytest.raises(OptionsError, match="a mapping such as"):
        HostRules(hosts=["example.com"])  # type: ignore[arg-type]
