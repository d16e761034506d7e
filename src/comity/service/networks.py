"""Networks: what an address stands for, read from tables of our own.

`ipaddress` parses and compares; its properties (`is_private`, `is_global`) are not asked, as they differ between versions
of Python and let special addresses through. What the special-purpose registries of IANA list is special here, whether or
not it can be reached from everywhere: nobody runs an API there. Of IPv6 only the block of global unicast is left.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IP = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA = "metadata of a cloud"
"""What `special` says of addresses that a cloud took for itself out of the public internet."""

_V4 = "IANA IPv4 Special-Purpose Address Registry"
_V6 = "IANA IPv6 Special-Purpose Address Registry"

_SPECIAL = (
    # block, what it is, where it is defined, who lists it
    ("0.0.0.0/8", "this network", "RFC 791 section 3.2", _V4),
    ("10.0.0.0/8", "private use", "RFC 1918", _V4),
    ("100.64.0.0/10", "shared address space", "RFC 6598", _V4),
    ("127.0.0.0/8", "loopback", "RFC 1122 section 3.2.1.3", _V4),
    ("169.254.0.0/16", "link-local", "RFC 3927", _V4),
    ("172.16.0.0/12", "private use", "RFC 1918", _V4),
    ("192.0.0.0/24", "IETF protocol assignments", "RFC 6890 section 2.1", _V4),
    ("192.0.2.0/24", "documentation", "RFC 5737", _V4),
    ("192.31.196.0/24", "AS112", "RFC 7535", _V4),
    ("192.52.193.0/24", "AMT", "RFC 7450", _V4),
    ("192.88.99.0/24", "6to4 relay anycast", "RFC 7526", _V4),
    ("192.168.0.0/16", "private use", "RFC 1918", _V4),
    ("192.175.48.0/24", "AS112", "RFC 7534", _V4),
    ("198.18.0.0/15", "benchmarking", "RFC 2544", _V4),
    ("198.51.100.0/24", "documentation", "RFC 5737", _V4),
    ("203.0.113.0/24", "documentation", "RFC 5737", _V4),
    ("224.0.0.0/4", "multicast", "RFC 5771", "IANA IPv4 Multicast Address Space Registry"),
    ("240.0.0.0/4", "reserved or broadcast", "RFC 1112 section 4, RFC 919", _V4),
    ("::/128", "unspecified address", "RFC 4291 section 2.5.2", _V6),
    ("::1/128", "loopback", "RFC 4291 section 2.5.3", _V6),
    ("::/96", "IPv4-compatible", "RFC 4291 section 2.5.5.1", "IANA Internet Protocol Version 6 Address Space"),
    ("64:ff9b:1::/48", "local-use IPv4/IPv6 translation", "RFC 8215", _V6),
    ("100::/64", "discard-only", "RFC 6666", _V6),
    ("100:0:0:1::/64", "dummy prefix", "RFC 9780", _V6),
    ("2001::/32", "Teredo", "RFC 4380", _V6),
    ("2001::/23", "IETF protocol assignments", "RFC 2928", _V6),
    ("2001:db8::/32", "documentation", "RFC 3849", _V6),
    ("2002::/16", "6to4", "RFC 3056", _V6),
    ("2620:4f:8000::/48", "AS112", "RFC 7534", _V6),
    ("3fff::/20", "documentation", "RFC 9637", _V6),
    ("5f00::/16", "segment routing", "RFC 9602", _V6),
    ("fc00::/7", "unique local", "RFC 4193", _V6),
    ("fe80::/10", "link-local", "RFC 4291 section 2.5.6", _V6),
    ("fec0::/10", "site-local", "RFC 3879", "IANA Internet Protocol Version 6 Address Space"),
    ("ff00::/8", "multicast", "RFC 4291 section 2.7", "IANA Internet Protocol Version 6 Address Space"),
)
_RULES = tuple((ip_network(block), f"{what}, {source}") for block, what, source, _ in _SPECIAL)

_UNICAST = IPv6Network("2000::/3")  # IANA Internet Protocol Version 6 Address Space, RFC 4291 section 2.4
_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291 section 2.5.5.2
_TRANSLATED = IPv6Network("64:ff9b::/96")  # RFC 6052 section 2.1: what it means is the IPv4 address inside

_EMBEDDING = (
    # network, how many bits lie below the IPv4 address, what inverts it
    (IPv6Network("::/96"), 0, 0),  # RFC 4291 section 2.5.5.1, IPv4-compatible
    (IPv6Network("::ffff:0:0:0/96"), 0, 0),  # RFC 2765 section 2.1, IPv4-translated
    (_TRANSLATED, 0, 0),
    (IPv6Network("64:ff9b:1::/48"), 0, 0),  # RFC 8215 with a prefix of 96 bits
    (IPv6Network("2001::/32"), 64, 0),  # RFC 4380 section 4, Teredo: the server
    (IPv6Network("2001::/32"), 0, 0xFFFFFFFF),  # ... and the client
    (IPv6Network("2002::/16"), 80, 0),  # RFC 3056 section 2, 6to4
)
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})  # RFC 5214 section 6.1: the interface identifier's upper half

_METADATA = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",  # AWS, Azure, Google, Oracle, OpenStack and others, each at some address of it
            "fe80::/10",  # OpenStack: fe80::a9fe:a9fe
            "100.100.100.200/32",  # Alibaba Cloud
            "168.63.129.16/32",  # Azure, WireServer
            "192.0.0.192/32",  # Oracle Cloud, the classic one
            "fd00:ec2::/32",  # AWS: ::254 instances, ::23 pods
            "fd20:ce::254/128",  # Google Cloud
            "fd00:42::42/128",  # Scaleway
        ),
    )
)


def readings(address: str) -> tuple[IP, ...]:
    """Return everything that an address means: itself, and the IPv4 addresses within it, those first.

    An IPv4-mapped address is only the IPv4 address, as that is what the system connects to.

    Args:
        address: in the numeric form of `getaddrinfo`; a zone (`%eth0`) is allowed.

    Raises:
        ValueError: it is no numeric address; a system that gets it would look it up or read it in its own way.

    Example:
        >>> [str(each) for each in readings("64:ff9b::7f00:1")]
        ['127.0.0.1', '64:ff9b::7f00:1']
    """
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        return (found,)
    bits = int(found)
    plain = IPv6Address(bits)  # without its zone
    if plain in _MAPPED:
        return (IPv4Address(bits & 0xFFFFFFFF),)
    inner = [
        IPv4Address((bits >> below & 0xFFFFFFFF) ^ inverted)
        for network, below, inverted in _EMBEDDING
        if plain in network and bits > 1  # :: and ::1 hold no IPv4 address
    ]
    if bits >> 32 & 0xFFFFFFFF in _ISATAP:
        inner.append(IPv4Address(bits & 0xFFFFFFFF))
    return (*inner, plain)


def special(address: IP) -> str | None:
    """Return what sets an address apart from the public internet, with its source, or None when nothing does.

    Args:
        address: one of `readings`.

    Example:
        >>> special(IPv4Address("10.1.2.3")), special(IPv4Address("9.9.9.9"))
        ('private use, RFC 1918', None)
    """
    rule = next((rule for network, rule in _RULES if address in network), None)
    if rule is not None:
        return rule
    if is_metadata(address):
        return METADATA
    if isinstance(address, IPv6Address) and address not in _UNICAST and address not in _TRANSLATED:
        return "no global unicast address, RFC 4291 section 2.4"
    return None


def is_metadata(address: IP) -> bool:
    """Tell whether a cloud may tell its machines' credentials at an address."""
    return any(address in network for network in _METADATA)


def mapped(network: Network) -> bool:
    """Tell whether a network is of IPv4-mapped addresses, which are read as IPv4 and so never are in it."""
    return isinstance(network, IPv6Network) and network.subnet_of(_MAPPED)
