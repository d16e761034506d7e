"""HostRules: which rules hold for a host, by exact name, subdomain, port and spelling."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.host_rules import HostRules
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
    ["", ".", ".deezer.com", "https://deezer.com", "deezer.com/x", "*.deezer.com", "a b", "bücher.de", "deezer.com:",
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
