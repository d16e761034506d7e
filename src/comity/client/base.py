"""Base: where relative URLs of a client go, and the headers that it adds, secrets to their own origin alone."""

from __future__ import annotations

from copy import copy

from comity import redact
from comity.client import address
from comity.client.address import Origin, Url
from comity.client.codings import ACCEPTED
from comity.client.headers import HeaderInput, Headers, checked, merged
from comity.client.user_agent import user_agent
from comity.errors import InvalidRequest, OptionsError


class Base:
    """What a client adds to its requests.

    Args:
        base_url: where relative URLs go; "" when there is none.
        headers: added to every request; those that are secrets go to the origin of `base_url` alone, if there is one.
        contact: an address for the User-Agent.

    Raises:
        OptionsError: one of them cannot be used.
    """

    __slots__ = ("_all", "_origin", "_public", "url")

    def __init__(self, base_url: str, headers: HeaderInput | None, contact: str | None = None) -> None:
        self.url = base_url
        self._origin = _base_origin(base_url) if base_url != "" else None
        own = (("Accept", "*/*"), ("Accept-Encoding", ACCEPTED), ("User-Agent", user_agent(contact)))
        self._take(Headers(own), headers)
        if contact is not None and self._all.get("user-agent") != own[-1][1]:
            raise OptionsError("contact", redact.text(contact), reason="headers say something else as User-Agent")

    def with_headers(self, headers: HeaderInput | None) -> Base:
        """Return the same base with other headers over these.

        Raises:
            OptionsError: they cannot be used.
        """
        changed = copy(self)
        changed._take(self._all, headers)  # noqa: SLF001 - it is one of us
        return changed

    def _take(self, defaults: Headers, headers: HeaderInput | None) -> None:
        try:
            self._all = merged(defaults, checked(headers or ()))
        except InvalidRequest as error:
            raise OptionsError("headers", headers, reason=str(error), secret=True) from None
        for name in ("content-length", "idempotency-key"):
            if name in self._all:
                reason = f"{name} belongs to one request, not to all of them"
                raise OptionsError("headers", headers, reason=reason, secret=True)
        public = tuple(pair for pair in self._all.pairs if not redact.is_secret(pair[0]))
        self._public = self._all if public == self._all.pairs else Headers(public)

    def absolute(self, url: Url) -> str:
        """Return an absolute URL as it is, and another under the base."""
        return self.place(url)[0]

    def place(self, url: Url) -> tuple[str, Headers]:
        """Return where `url` leads, as `absolute`, and the headers for a request there: secrets stay at their origin."""
        if not isinstance(url, str):
            url = address.text(url)
        if self.url == "":
            return url, self._all
        if not address.is_absolute(url):
            return address.join(self.url, url), self._all
        if self._public is self._all or address.parse(url).origin == self._origin:
            return url, self._all
        return url, self._public

    def has(self, name: str) -> bool:
        """Return whether a header goes with the client's requests."""
        return name in self._all

    def at_home(self, origin: Origin) -> bool:
        """Return whether what is secret may go to an origin: the base's own, or any when there is no base."""
        return self._origin is None or origin == self._origin


def _base_origin(base_url: str) -> Origin:
    form = "an http or https URL, with a path if needed, without query and fragment"
    if not isinstance(base_url, str):
        raise OptionsError("base_url", type(base_url).__name__, form)
    shown = redact.url(base_url)
    if "?" in base_url or "#" in base_url:
        raise OptionsError("base_url", shown, form)
    try:
        return address.parse(base_url).origin
    except InvalidRequest as error:
        raise OptionsError("base_url", shown, form, reason=str(error)) from None
