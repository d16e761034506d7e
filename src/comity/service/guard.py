"""Guard: lets deliveries reach the public internet alone, so that nobody uses the service to look inside (SSRF).

    when a request is taken in     `check`: an http or https URL without user information, whose host is a name, or an address
                                   in its canonical spelling that is allowed
    at each connection             `objection`: every address that the name has must be allowed; one that is not refuses
                                   the name. The transport connects to one of these addresses and no other, and then asks
                                   once more about the peer that it reached

The second is asked by the transport itself (`AiohttpTransport(guard=...)`), at the moment of connecting: a redirect, a name
that changes its addresses between two lookups and a connection of a retry all pass there.

What it cannot know: the prefix of a network's own NAT64 (RFC 6052 section 2.2), and what a public address is forwarded to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_network

from comity.client.address import Address, parse
from comity.errors import InvalidRequest, OptionsError, TargetBlocked
from comity.policy.naming import unusable
from comity.policy.units import flag
from comity.service.networks import IP, METADATA, Network, is_metadata, mapped, readings, special

_ALLOWED = 'names ("hooks.internal.example") and networks ("10.1.0.0/16", "fd12::/48") of one\'s own'


class Guard:
    """Judges targets, all but the public internet refused.

    Args:
        allow: what is allowed besides: networks in CIDR form, addresses, and host names. A name allows what it resolves to
            at any time, and stands for itself alone, not for names below it.
        metadata: let `allow` also allow addresses at which clouds hand out credentials; without it nothing does.

    Raises:
        OptionsError: an entry is no such thing, or `metadata` no boolean.

    Example:
        >>> Guard(allow=["10.1.0.0/16"]).objection("hooks.example", ["10.1.2.3", "127.0.0.1"])
        'loopback, RFC 1122 section 3.2.1.3'
    """

    def __init__(self, *, allow: Sequence[str] = (), metadata: bool = False) -> None:
        if isinstance(allow, str) or not isinstance(allow, Sequence):
            raise unusable("guard.allow", allow, f"a list of {_ALLOWED}")
        self._metadata = flag(metadata, "guard.metadata")
        entries = [_entry(each) for each in allow]
        self._names = frozenset(each for each in entries if isinstance(each, str))
        self._networks = tuple(each for each in entries if not isinstance(each, str))
        # What a literal may be depends on nothing else, and most submissions go where others went.
        self._judged = lru_cache(maxsize=1_000)(self._literal_objection)

    def check(self, url: str) -> Address:
        """Judge a URL as far as its text alone tells; nothing is looked up.

        Returns:
            The URL taken apart, as the client will read it.

        Raises:
            InvalidRequest: it is no http or https URL, has user information, or spells an address in another way than
                the canonical one (2130706433, 0x7f.1, 127.1): systems differ in how they read those.
            TargetBlocked: its host is an address that may not be connected to, or stands for this machine.
        """
        address = parse(url)
        if address.userinfo:
            raise InvalidRequest("url has user information, which would be stored with it; say it in a header")
        host = _bare(address.origin.host)
        if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 section 6.3
            literal = "127.0.0.1"
        elif ":" in host or host.replace(".", "").isdigit():
            literal = host
        else:
            return address
        rule = self._judged(host, literal)
        if rule is not None:
            raise TargetBlocked(f"the guard lets nobody connect to the host of this url ({rule})", rule=rule)
        return address

    def objection(self, host: str, addresses: Sequence[str], /) -> str | None:
        """Return the rule that speaks against connecting to any of a host's addresses; see `comity.client.guard.Guard`."""
        named = _bare(host) in self._names
        for text in addresses:
            try:
                meanings = readings(text)
            except ValueError:
                return "no numeric address"
            for address in meanings:
                rule = self._rule(address, named=named)
                if rule is not None:
                    return rule
        return None

    def _literal_objection(self, host: str, literal: str) -> str | None:
        return self.objection(host, [literal])

    def _rule(self, address: IP, *, named: bool) -> str | None:
        if not named and not any(address in network for network in self._networks):
            return special(address)
        return METADATA if is_metadata(address) and not self._metadata else None


def _bare(host: str) -> str:
    return host.removesuffix(".")


def _entry(given: object) -> Network | str:
    """Return an entry of an allow-list: a network, or a name in the form in which URLs are read."""
    if not isinstance(given, str):
        raise unusable("guard.allow", given, f"a list of {_ALLOWED}")
    try:
        network = ip_network(given)
    except ValueError:
        return _name(given)
    if mapped(network):
        raise unusable("guard.allow", given, hint="write the IPv4 network", reason="mapped addresses are read as IPv4")
    return network


def _name(given: str) -> str:
    reason = "it is neither a network, all bits beyond its prefix 0, nor an exact host name"
    if any(sign in given for sign in "/:@?#%*\\ "):
        raise unusable("guard.allow", given, _ALLOWED, reason=reason)
    try:
        return _bare(parse(f"http://{given}/").origin.host)
    except InvalidRequest:
        raise OptionsError("guard.allow", given, _ALLOWED, reason=reason) from None
