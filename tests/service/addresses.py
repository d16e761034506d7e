"""Addresses for the tests of the guard, each with what it is."""

from __future__ import annotations

REFUSED = {
    "0.0.0.0": "this network", "0.1.2.3": "this network", "10.0.0.1": "private", "10.255.255.255": "private",
    "100.64.0.1": "shared", "100.100.100.200": "shared", "100.127.255.255": "shared", "127.0.0.1": "loopback",
    "127.255.255.254": "loopback", "168.63.129.16": "metadata", "169.254.0.1": "link-local", "169.254.169.254": "link-local",
    "169.254.170.2": "link-local", "172.16.0.1": "private", "172.31.255.255": "private", "192.0.0.1": "protocol",
    "192.0.0.9": "protocol", "192.0.0.170": "protocol", "192.0.0.192": "protocol", "192.0.2.1": "documentation",
    "192.31.196.1": "AS112", "192.52.193.1": "AMT", "192.88.99.1": "6to4", "192.168.0.1": "private",
    "192.168.255.255": "private", "192.175.48.1": "AS112", "198.18.0.1": "benchmarking", "198.19.255.255": "benchmarking",
    "198.51.100.1": "documentation", "203.0.113.5": "documentation", "224.0.0.1": "multicast", "239.255.255.250": "multicast",
    "240.0.0.1": "reserved", "255.255.255.255": "broadcast",
    "::": "unspecified", "::1": "loopback", "::2": "this network", "::7f00:1": "loopback", "::808:808": "IPv4-compatible",
    "::ffff:127.0.0.1": "loopback", "::ffff:10.0.0.1": "private", "::ffff:a9fe:a9fe": "link-local",
    "::ffff:0:127.0.0.1": "loopback", "::ffff:0:8.8.8.8": "no global", "64:ff9b::7f00:1": "loopback",
    "64:ff9b::10.0.0.1": "private", "64:ff9b::a9fe:a9fe": "link-local", "64:ff9b:1::7f00:1": "loopback",
    "64:ff9b:1::808:808": "local-use", "100::1": "discard", "100:0:0:1::1": "dummy", "2001::1": "Teredo|this network",
    "2001:0:4136:e378:8000:63bf:80ff:fffe": "loopback", "2001:0:a00:1::f7f7:f7f7": "private",
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7": "Teredo", "2001:2::1": "protocol", "2001:10::1": "protocol", "2001:20::1": "protocol",
    "2001:db8::1": "documentation", "2002:7f00:1::": "loopback", "2002:a00:1::1": "private", "2002:a9fe:a9fe::1": "link-local",
    "2002:808:808::1": "6to4", "2620:4f:8000::1": "AS112", "3fff::1": "documentation", "4000::1": "no global",
    "5f00::1": "segment", "fc00::1": "unique local", "fd00:ec2::254": "unique local", "fd20:ce::254": "unique local",
    "fe80::1": "link-local", "fe80::a9fe:a9fe": "link-local", "fec0::1": "site-local", "ff02::1": "multicast",
    "2600:1f00::5efe:127.0.0.1": "loopback", "2600:1f00::200:5efe:a00:1": "private",
}  # fmt: skip
"""Must never be connected to."""

PUBLIC = (
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "172.15.255.255",
    "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
    "2001:200::1", "2003::1", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e", "::ffff:8.8.8.8", "64:ff9b::808:808",
)  # fmt: skip

ODD = (
    "2130706433", "017700000001", "0x7f000001", "0x7f.1", "0x7f.0.0.1", "0177.0.0.1", "0177.1", "127.1", "127.0.1", "127.0.0.1.",
    "127.0.0.01", "127.0.0.0x1", "00127.0.0.1", "%31%32%37.0.0.1", "127%2e0.0.1", "127.0.0.1%00", "127.0.0.1%20", "１２７.0.0.1",
    "127。0。0。1", "１２７．１", "①②⑦.0.0.1", "localhost", "LOCALHOST.", "a.localhost", "ｌｏｃａｌｈｏｓｔ", "127.0.0.1@127.0.0.1",
    "[::1%25lo]", "[::1%lo]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[::FFFF:127.0.0.1]", "[127.0.0.1]",
    "[0000::0001]", "[::1.]", "0", "0.0", "-1", "4294967297", "127.0.0.256", "127.0.0.1.1", "127..1", "0x", "127.0.0.1\t",
)  # fmt: skip
"""Other spellings of this machine, and hosts that some resolver may take for it."""


def as_host(address: str) -> str:
    """Return an address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address
