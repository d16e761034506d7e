"""networks: what an address stands for."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, strategies as st

from comity.service import networks
from comity.service.networks import is_metadata, readings, special
from tests.service.addresses import PUBLIC, REFUSED


@pytest.mark.parametrize(("address", "what"), REFUSED.items())
def test_an_address_that_is_not_public_is_special(address, what):
    rule = next(filter(None, map(special, readings(address))))
    assert re.search(what, rule), rule


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_not(address):
    assert not any(map(special, readings(address)))


def test_the_table_is_as_long_as_what_must_be_refused_in_the_field():
    assert len(REFUSED) >= 57


@pytest.mark.parametrize("block", [each[0] for each in networks._SPECIAL])
def test_both_ends_of_each_block_are_special(block):
    network = ip_network(block)
    assert special(network[0]) is not None
    assert special(network[-1]) is not None


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("::ffff:1.2.3.4", []),
        ("::1.2.3.4", ["1.2.3.4"]),
        ("64:ff9b::1.2.3.4", ["1.2.3.4"]),
        ("2002:102:304::", ["1.2.3.4"]),
        ("2001:0:102:304::fefd:fcfb", ["1.2.3.4", "1.2.3.4"]),
        ("2600::5efe:1.2.3.4", ["1.2.3.4"]),
        ("fe80::1%eth0", []),
        ("::1", []),
        ("::", []),
    ],
)
def test_an_address_also_means_the_ipv4_addresses_within_it(address, inside):
    *within, itself = map(str, readings(address))
    assert within == inside
    assert itself == ("1.2.3.4" if address.startswith("::ffff") else str(ip_address(address.partition("%")[0])))


@pytest.mark.parametrize(
    "text", ["localhost", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.01", "", " ::1", "1.2.3.4/32"]
)
def test_what_a_system_would_read_in_its_own_way_is_no_address(text):
    with pytest.raises(ValueError, match="does not appear to be"):
        readings(text)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fe80::a9fe:a9fe"],
)
def test_where_clouds_keep_credentials_is_known(address):
    assert is_metadata(ip_address(address))
    assert special(ip_address(address)) is not None


@given(st.ip_addresses(v=4))
def test_a_public_address_is_public_however_it_is_wrapped_and_a_special_one_never(address):
    bits = int(address)
    for wrapped in (f"::ffff:{address}", f"64:ff9b::{bits >> 16:x}:{bits & 0xFFFF:x}"):
        assert any(map(special, readings(wrapped))) == (special(address) is not None)


@given(st.ip_addresses(v=6))
def test_ipv6_beyond_global_unicast_is_special(address):
    outside = int(address) >> 125 != 1 and int(address) >> 32 not in {0xFFFF, 0x64FF9B << 64}
    assert not outside or any(map(special, readings(str(address))))
